"""Laws that every net keeps; a new one adds its tiny case to ``tests/support/nets.py`` and passes them unchanged."""

from __future__ import annotations

import torch

from faudit.nets import NETS
from faudit.nets.net import is_buffer, part
from tests.support.nets import TINY_NETS, TinyNet


def test_every_registered_net_has_a_tiny_case() -> None:
    assert {type(make()) for make in TINY_NETS.values()} == {NETS[name] for name in NETS}


def test_trace_and_cut_trace_and_forward_agree(net_name: str) -> None:
    setup = TinyNet(net_name)
    whole, cut = setup.net.trace(setup.params, setup.x), setup.net.trace_cut(setup.params, setup.x)
    assert torch.equal(whole.logits, setup.net.forward(setup.params, setup.x))
    for one, other in zip([*whole.taps, whole.logits], [*cut.taps, cut.logits], strict=True):
        assert torch.equal(one, other)
    assert len(whole.taps) == setup.net.blocks + 1
    for l in range(setup.net.blocks + 1):
        assert torch.equal(setup.net.onward(setup.params, l, whole.taps[l]), whole.logits)


def test_the_cut_lets_no_gradient_past_a_tap(net_name: str) -> None:
    setup = TinyNet(net_name)
    trace = setup.net.trace_cut(setup.params, setup.x)
    outputs = {"embed": trace.embedded, "readout": trace.logits}
    outputs |= {f"blocks.{l}": f for l, f in enumerate(trace.branches)}
    trained = {name: value for name, value in setup.params.items() if value.requires_grad}
    owners = {part(name) for name in trained}
    assert owners == {owner for owner, output in outputs.items() if output.requires_grad}
    for owner in owners:
        grads = torch.autograd.grad(
            outputs[owner].square().sum(), list(trained.values()), allow_unused=True, retain_graph=True
        )
        reached = {part(name) for name, grad in zip(trained, grads, strict=True) if grad is not None}
        assert reached == {owner}


def test_taps_and_signals_fit_together(net_name: str) -> None:
    setup = TinyNet(net_name)
    trace = setup.net.trace(setup.params, setup.x)
    widths = setup.net.tap_widths(setup.x)
    assert [setup.net.tap(h).shape for h in trace.taps] == [(len(setup.x), width) for width in widths]
    for l, branch in enumerate(trace.branches):
        signal = torch.ones(len(setup.x), widths[setup.net.taught_at(l)], dtype=torch.float64)
        assert setup.net.spread(signal, branch).shape == branch.shape
    assert {setup.net.taught_at(l) for l in range(setup.net.blocks)} <= set(range(setup.net.signals))


def test_weights_depend_on_the_generator_alone(net_name: str) -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        return TINY_NETS[net_name]().init(torch.Generator().manual_seed(seed))

    first = weights(0)
    torch.manual_seed(999)
    again, other = weights(0), weights(1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_weights_stand_in_the_order_of_the_parts_and_only_an_embedding_may_have_none(net_name: str) -> None:
    setup = TinyNet(net_name)
    found = list(dict.fromkeys(part(name) for name in setup.params))
    assert found in (setup.net.parts, setup.net.parts[1:])


def test_the_output_error_is_the_gradient_of_the_loss_and_the_reductions_agree(net_name: str) -> None:
    setup = TinyNet(net_name)
    logits = setup.net.forward(setup.params, setup.x).detach().requires_grad_()
    losses = setup.net.loss(logits, setup.y, reduction="none")
    assert losses.shape == setup.y.shape
    torch.testing.assert_close(setup.net.loss(logits, setup.y), losses.mean(), rtol=1e-14, atol=0)
    torch.testing.assert_close(setup.net.loss(logits, setup.y, reduction="sum"), losses.sum(), rtol=1e-14, atol=0)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(setup.net.output_error(logits.detach(), setup.y), gradient, rtol=1e-12, atol=1e-15)


def test_evaluation_draws_and_writes_nothing_and_training_writes_only_running_statistics_once(net_name: str) -> None:
    setup = TinyNet(net_name)
    before = {name: value.detach().clone() for name, value in setup.params.items()}
    assert torch.equal(setup.net.forward(setup.params, setup.x), setup.net.forward(setup.params, setup.x))
    assert all(torch.equal(before[name], value) for name, value in setup.params.items())
    net = setup.net.in_training(torch.Generator().manual_seed(0))
    first = net.forward(setup.params, setup.x)
    written = {name: value.detach().clone() for name, value in setup.params.items()}
    assert {name for name in before if not torch.equal(before[name], written[name])} == set(filter(is_buffer, before))
    assert torch.equal(first, net.forward(setup.params, setup.x)), "both passes of a step see the same masks"
    assert all(torch.equal(written[name], value) for name, value in setup.params.items())
