"""Credit bridge: value, soft minimum, terminal matching, slow copy and warm-up, each by hand."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
import torch

from faudit.rules.credit_bridge import CreditBridge
from tests.support.nets import Setup

SMALL = {"auxiliary_width": 9, "auxiliary_depth": 2}


def bridge(net: str, **settings: Any) -> tuple[Setup, CreditBridge]:
    setup = Setup("credit-bridge", net, **{**SMALL, "warmup": 0, **settings})
    assert isinstance(setup.rule, CreditBridge)
    with torch.no_grad():  # a slow copy that differs, as it does after a step
        for name in setup.state:
            if name.startswith("slow."):
                setup.state[name].mul_(0.8)
    return setup, setup.rule


@pytest.mark.parametrize("net", ["resmlp", "resmlp-no-residual", "vit", "cnn"])
def test_the_credit_is_the_slope_of_each_samples_value(net: str) -> None:
    setup, rule = bridge(net)
    trace = setup.net.trace(setup.params, setup.x)
    error = setup.net.output_error(trace.logits, setup.y)
    credits = setup.credit()
    assert len(credits) == setup.net.signals
    with torch.no_grad():
        for tap, credit in enumerate(credits):
            h = setup.net.tap(trace.taps[tap])
            direction = torch.randn(h.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(tap))
            ends = [rule.value(setup.net, setup.state, tap, h + s * direction, error) for s in (1e-5, -1e-5)]
            torch.testing.assert_close((credit * direction).sum(1), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-9)


def test_the_target_is_the_soft_minimum_of_the_slow_copy_by_hand() -> None:
    setup, rule = bridge("resmlp", temperature=0.3, noise_samples=4, noise_std=0.5)
    trace = setup.net.trace_cut(setup.params, setup.x)
    error, h = setup.net.output_error(trace.logits, setup.y).detach(), trace.taps[2]
    got = rule.target(setup.net, setup.state, 2, h, error, generator=torch.Generator().manual_seed(5))
    noise = torch.randn(4, *h.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    for row in range(len(h)):
        values = []
        for k in range(4):
            near = h[row] + 0.5 * noise[k, row]
            slow = rule.value(setup.net, setup.state, 2, near[None], error[row][None], name="slow")
            values.append(float(slow.detach()))
        want = -0.3 * log(sum(exp(-value / 0.3) for value in values) / 4)
        assert float(got[row]) == pytest.approx(want, rel=1e-10)
        assert min(values) < want < sum(values) / 4, "between the minimum and the mean"
    assert not got.requires_grad


def test_the_soft_minimum_without_noise_is_the_value_itself() -> None:
    setup, rule = bridge("resmlp", noise_std=0.0)
    trace = setup.net.trace_cut(setup.params, setup.x)
    error = setup.net.output_error(trace.logits, setup.y).detach()
    got = rule.target(setup.net, setup.state, 1, trace.taps[1], error, generator=torch.Generator())
    want = rule.value(setup.net, setup.state, 1, trace.taps[1], error, name="slow")
    torch.testing.assert_close(got, want.detach(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("net", ["resmlp", "cnn", "vit"])
def test_the_own_loss_is_the_squared_gap_to_the_targets_plus_the_weighted_mismatch(net: str) -> None:
    setup, rule = bridge(net, terminal_weight=3.0)
    trace = setup.net.trace_cut(setup.params, setup.x)
    error, taps = setup.net.output_error(trace.logits, setup.y).detach(), [setup.net.tap(h) for h in trace.taps]
    draw, gaps = torch.Generator().manual_seed(5), []
    for l in range(setup.net.blocks):
        target = rule.target(setup.net, setup.state, l + 1, taps[l + 1], error, generator=draw)
        values = rule.value(setup.net, setup.state, l, taps[l], error).detach()
        gaps += [float((v - t) ** 2) for v, t in zip(values, target, strict=True)]
    # ∂V/∂h_L by central differences along every axis, and the true gradient of each sample's loss.
    h, width = taps[-1].detach(), taps[-1].shape[1]
    with torch.no_grad():
        slopes = torch.stack(
            [
                (at[0] - at[1]) / 2e-5
                for axis in torch.eye(width, dtype=torch.float64)
                for at in [
                    [rule.value(setup.net, setup.state, setup.net.blocks, h + s * axis, error) for s in (1e-5, -1e-5)]
                ]
            ],
            dim=1,
        )
    bp = Setup("bp", net)
    true = setup.net.tap(end_gradient(bp))
    mismatch = float((slopes - true).square().sum() / true.square().sum())
    got = rule.own_loss(
        setup.net, setup.params, setup.state, trace, setup.y, generator=torch.Generator().manual_seed(5)
    )
    assert float(got.detach()) == pytest.approx(sum(gaps) / len(gaps) + 3.0 * mismatch, rel=1e-5)


def end_gradient(setup: Setup) -> torch.Tensor:
    h = setup.net.trace(setup.params, setup.x).taps[-1].detach().requires_grad_()
    loss = setup.net.loss(setup.net.readout(setup.params, h), setup.y, reduction="sum")
    return torch.autograd.grad(loss, h)[0]


def test_the_slow_copy_follows_by_hand_and_updates_are_counted() -> None:
    setup, rule = bridge("resmlp", ema=0.9)
    step = setup.step()
    with torch.no_grad():
        after = rule.after_update(setup.net, setup.params, setup.state, step, generator=torch.Generator())
    assert float(after.pop("updates")) == 1
    assert after.keys() == {name for name in setup.state if name.startswith("slow.")}
    for name, value in after.items():
        fast, slow = setup.state[name.replace("slow.", "aux.")].detach(), setup.state[name]
        torch.testing.assert_close(value, 0.9 * slow + 0.1 * fast, rtol=1e-12, atol=1e-14)


def test_dfa_teaches_until_the_warm_up_ends_and_the_value_from_then_on() -> None:
    setup, dfa = Setup("credit-bridge", "resmlp", warmup=3, **SMALL), Setup("dfa", "resmlp")
    dfa.state = {name: value for name, value in setup.state.items() if name.startswith("B.")}
    value = Setup("credit-bridge", "resmlp", warmup=0, **SMALL)
    for updates in range(5):
        setup.state["updates"] = torch.tensor(updates)
        direct, learned = dfa.credit(), value.credit()
        assert not torch.equal(direct[0], learned[0])
        want = direct if updates < 3 else learned
        assert all(torch.equal(got, one) for got, one in zip(setup.credit(), want, strict=True)), updates


def test_the_copy_starts_equal_and_is_not_trained() -> None:
    setup = Setup("credit-bridge", "resmlp")
    for name, value in setup.state.items():
        if name.startswith("slow."):
            assert torch.equal(value, setup.state[name.replace("slow.", "aux.")]) and not value.requires_grad
    assert not any(name.startswith("slow.") for name in setup.grads())
