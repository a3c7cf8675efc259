"""Local losses: the step by hand in numpy, what each loss reaches, and batches that say little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.config import RunConfig
from faudit.nets.mlp import MLP
from faudit.nets.net import part
from faudit.rules.local_loss import EPS, LARGEST, LocalLoss, averaged, patches, similarities
from tests.support.nets import Setup
from tests.support.runs import survives_a_stop

KINDS = ["pred", "sim", "predsim"]
SHARES = {"pred": 0.0, "sim": 1.0, "predsim": 0.3}
Array = np.ndarray[Any, np.dtype[np.float64]]


def lively(net: str, kind: str, **settings: Any) -> Setup:
    """A setup whose classifiers have left zero, so that pred reaches the blocks."""
    setup = Setup("local-loss", net, local_loss=kind, sim_share=0.3, **settings)
    draw = torch.Generator().manual_seed(3)
    for name, value in setup.state.items():
        if name.endswith("pred.weight"):
            value.data.normal_(0.0, 0.5, generator=draw)
    return setup


def softmax(z: Array) -> Array:
    powers = np.exp(z - z.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def loss_by_hand(setup: Setup, tap: int, h: Array, share: float) -> tuple[Array, dict[str, Array]]:
    """The gradient of the local loss at h, and those of its auxiliary weights; derivatives written out."""
    state = {name: value.detach().numpy() for name, value in setup.state.items()}
    n, labels = len(h), np.eye(setup.net.classes)[setup.y.numpy()]
    at_h, grads = np.zeros_like(h), dict[str, Array]()
    if share < 1.0:
        weight, bias = state[f"aux.{tap}.pred.weight"], state[f"aux.{tap}.pred.bias"]
        error = (1.0 - share) * (softmax(h @ weight.T + bias) - labels) / n
        grads |= {f"aux.{tap}.pred.weight": error.T @ h, f"aux.{tap}.pred.bias": error.sum(0)}
        at_h = at_h + error @ weight
    if share > 0.0:
        weight = state[f"aux.{tap}.sim.weight"]
        centred = (z := h @ weight.T) - z.mean(1, keepdims=True)
        sizes = np.sqrt((centred**2).sum(1, keepdims=True))
        unit = centred / (sizes + EPS)
        same, others = np.equal.outer(setup.y.numpy(), setup.y.numpy()), setup.net.classes - 1
        wanted = np.where(same, 1.0, -1.0 / others) / (1.0 + EPS * np.sqrt((others + 1) / others)) ** 2
        at_unit = share * 4.0 * (unit @ unit.T - wanted) @ unit / n**2  # each pair occurs twice
        at_centred = (at_unit - unit * (at_unit * centred).sum(1, keepdims=True) / sizes) / (sizes + EPS)
        at_z = at_centred - at_centred.mean(1, keepdims=True)
        grads[f"aux.{tap}.sim.weight"] = at_z.T @ h
        at_h = at_h + at_z @ weight
    return at_h, grads


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_on_an_mlp_is_the_derivative_by_hand(kind: str) -> None:
    setup = lively("mlp", kind)
    params = {name: value.detach().numpy() for name, value in setup.params.items()}
    h = setup.x.numpy().reshape(len(setup.x), -1)
    want: dict[str, Array] = {}
    for l in range(setup.net.blocks):
        above = np.tanh(h @ params[f"blocks.{l}.weight"].T + params[f"blocks.{l}.bias"])
        at_h, grads = loss_by_hand(setup, l + 1, above, SHARES[kind])
        at_z = at_h * (1.0 - above**2)
        want |= grads | {f"blocks.{l}.weight": at_z.T @ h, f"blocks.{l}.bias": at_z.sum(0)}
        h = above
    labels = np.eye(setup.net.classes)[setup.y.numpy()]
    error = (softmax(h @ params["readout.weight"].T + params["readout.bias"]) - labels) / len(h)
    want |= {"readout.weight": error.T @ h, "readout.bias": error.sum(0)}
    got = setup.grads()
    assert got.keys() == want.keys() == {*setup.params, *setup.state}
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value, rtol=1e-9, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_credit_without_a_skip_is_the_gradient_of_the_loss_at_the_blocks_own_output(kind: str) -> None:
    setup = lively("mlp", kind)
    credit, taps = setup.credit(), setup.net.trace(setup.params, setup.x).taps
    assert not bool(credit[0].any()), "an embedding without weights is taught nothing"
    for t in range(1, setup.net.signals):
        want = len(setup.x) * loss_by_hand(setup, t, taps[t].detach().numpy(), SHARES[kind])[0]
        np.testing.assert_allclose(credit[t].numpy(), want, rtol=1e-9, atol=1e-13)


def test_the_credit_with_a_skip_is_the_gradient_at_the_blocks_input_and_with_the_true_readout_bps() -> None:
    """The limit in which the last block's loss is the true one: pred with the head as its classifier."""
    setup, bp = lively("student", "pred"), Setup("bp", "student")
    last = setup.net.blocks
    setup.state[f"aux.{last}.pred.weight"] = setup.params["readout.weight"].detach()
    setup.state[f"aux.{last}.pred.bias"] = setup.params["readout.bias"].detach()
    torch.testing.assert_close(setup.credit()[-1], bp.credit()[-1], rtol=1e-12, atol=1e-15)
    for l in range(last - 1):
        assert not torch.allclose(setup.credit()[l], bp.credit()[l])
    got, want = setup.rule.step(setup.net, setup.params, leaves(setup.state), setup.x, setup.y).grads, bp.grads()
    for name in (name for name in want if part(name) == f"blocks.{last - 1}"):
        torch.testing.assert_close(got[name], want[name], rtol=1e-12, atol=1e-15)


def leaves(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone().requires_grad_() for name, value in state.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_loss_teaches_the_part_below_its_tap_and_no_other(kind: str, net_name: str) -> None:
    setup = lively(net_name, kind)
    before, kept = setup.grads(), dict(setup.state)
    draw = torch.Generator().manual_seed(4)
    for t in range(setup.net.blocks + 1):
        own = {name for name in kept if name.startswith(f"aux.{t}.")}
        shifts = {name: torch.randn(kept[name].shape, generator=draw, dtype=torch.float64) for name in sorted(own)}
        setup.state = kept | {name: (kept[name].detach() + shift).requires_grad_() for name, shift in shifts.items()}
        after = setup.grads()
        changed = {name for name in before if not torch.equal(before[name], after[name])} - own
        assert {part(name) for name in changed} == (({"embed"} if t == 0 else {f"blocks.{t - 1}"}) if own else set())


def test_an_embedding_has_a_loss_exactly_if_it_has_weights(net_name: str) -> None:
    setup = Setup("local-loss", net_name)
    has_weights = any(part(name) == "embed" for name in setup.params)
    assert any(name.startswith("aux.0.") for name in setup.state) is has_weights


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_at_the_start_of_pred_moves_only_the_classifiers_and_sim_moves_every_block(kind: str) -> None:
    grads = Setup("local-loss", "mlp", local_loss=kind).grads()
    moved = {part(name) for name, gradient in grads.items() if name.startswith("blocks.") and bool(gradient.any())}
    assert moved == (set() if kind == "pred" else {"blocks.0", "blocks.1", "blocks.2"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4])
def test_a_batch_of_one_class_or_one_sample_gives_finite_gradients(kind: str, size: int, net_name: str) -> None:
    setup = lively(net_name, kind)
    setup.x, setup.y = setup.x[:size], torch.full((size,), 2)
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())
    assert all(bool(signal.isfinite().all()) for signal in setup.credit())


@pytest.mark.parametrize("net", ["mlp-relu", "cnn"])
def test_a_block_without_any_activity_gives_finite_gradients(net: str) -> None:
    """The authors' formula divides zero by zero here: a norm has no derivative at zero."""
    setup = lively(net, "predsim")
    with torch.no_grad():
        for name, value in setup.params.items():
            if part(name) in ("embed", "blocks.0"):
                value.zero_()
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())


def test_similarities_of_labels_are_one_within_a_class_and_equal_between_classes() -> None:
    found = similarities(F.one_hot(torch.tensor([0, 0, 1, 3]), 5).double())
    want = torch.full((4, 4), -0.25, dtype=torch.float64).fill_diagonal_(1.0)
    want[0, 1] = want[1, 0] = 1.0
    torch.testing.assert_close(found, want, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "size"), [((32, 28, 28), (7, 14)), ((64, 14, 14), (7, 7)), ((128, 5, 3), (5, 3)), ((5000, 2, 3), (1, 1))]
)
def test_feature_maps_are_averaged_until_a_classifier_can_take_them(
    shape: tuple[int, int, int], size: tuple[int, int]
) -> None:
    assert patches(*shape) == size
    assert averaged(torch.ones(2, *shape)).shape == (2, shape[0] * size[0] * size[1])
    assert shape[0] * size[0] * size[1] <= LARGEST or size == (1, 1)


def test_maps_are_averaged_over_equal_patches() -> None:
    h = torch.arange(1200 * 4.0).view(1, 1200, 2, 2)
    assert torch.equal(averaged(h), h.mean(dim=2).flatten(1))


def test_a_stop_changes_nothing_of_weights_auxiliary_nets_and_running_statistics(tmp_path: Path) -> None:
    config = RunConfig(
        rule="local-loss", net="mlp", sizes=(16, 12), activation="leaky-relu", batch_norm=True, dropout=0.2, epochs=4
    )
    survives_a_stop(config, tmp_path)


def test_a_block_is_judged_before_dropout_and_the_next_one_reads_what_is_left() -> None:
    """The first block reads the data, so its gradients do not depend on dropout; those of the second one do."""
    plain = MLP((1, 4, 4), 3, sizes=(12, 10), activation="relu", batch_norm=True)
    draw, rule = torch.Generator().manual_seed(2), LocalLoss()
    x, y = torch.randn(8, 1, 4, 4, generator=draw), torch.arange(8) % 3
    params = {name: value.requires_grad_("running" not in name) for name, value in plain.init(draw).items()}
    state = {name: value.requires_grad_() for name, value in rule.init(plain, x, draw).items()}
    dropping = MLP((1, 4, 4), 3, sizes=(12, 10), activation="relu", batch_norm=True, dropout=0.5)
    whole, left = (
        rule.step(net.in_training(torch.Generator().manual_seed(1)), params, state, x, y).grads
        for net in (plain, dropping)
    )
    for name, value in whole.items():
        if part(name) == "blocks.0" or name.startswith("aux.1."):
            assert torch.equal(value, left[name]), name
    assert not torch.equal(whole["blocks.1.weight"], left["blocks.1.weight"])
    assert not torch.equal(whole["readout.weight"], left["readout.weight"])
