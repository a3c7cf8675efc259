"""State bridge: prediction and credit against differences of the loss through the auxiliary net."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faudit.rules.state_bridge import StateBridge
from tests.support.nets import Setup

SMALL = {"auxiliary_width": 9, "auxiliary_depth": 2}


def bridge(net: str) -> tuple[Setup, StateBridge]:
    setup = Setup("state-bridge", net, **SMALL)
    assert isinstance(setup.rule, StateBridge)
    return setup, setup.rule


@pytest.mark.parametrize("net", ["resmlp", "resmlp-no-residual", "vit", "cnn"])
def test_the_credit_is_the_slope_of_each_samples_loss_after_the_predicted_end(net: str) -> None:
    setup, rule = bridge(net)
    trace = setup.net.trace(setup.params, setup.x)
    error = setup.net.output_error(trace.logits, setup.y)
    draw = torch.Generator().manual_seed(0)

    def losses(tap: int, h: Tensor) -> Tensor:
        predicted = rule.predicted(setup.net, setup.state, tap, h, error)
        end = trace.taps[-1].clone()
        if net == "vit":
            end[:, 0] = predicted
        else:
            end = predicted.view_as(end)
        return setup.net.loss(setup.net.readout(setup.params, end), setup.y, reduction="none")

    with torch.no_grad():
        for tap, credit in enumerate(setup.credit()):
            h = setup.net.tap(trace.taps[tap])
            direction = torch.randn(h.shape, dtype=torch.float64, generator=draw)
            want = (losses(tap, h + 1e-5 * direction) - losses(tap, h - 1e-5 * direction)) / 2e-5
            torch.testing.assert_close((credit * direction).sum(1), want, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("net", ["resmlp", "cnn"])
def test_the_own_loss_is_the_normalised_squared_error_by_hand(net: str) -> None:
    setup, rule = bridge(net)
    trace = setup.net.trace_cut(setup.params, setup.x)
    error, end = setup.net.output_error(trace.logits, setup.y), setup.net.tap(trace.taps[-1])
    shares = []
    for tap in range(setup.net.signals):
        wrong = 0.0
        predicted = rule.predicted(setup.net, setup.state, tap, setup.net.tap(trace.taps[tap]), error)
        for row in range(len(end)):
            wrong += sum(float((p - t) ** 2) for p, t in zip(predicted[row].detach(), end[row], strict=True))
        shares.append(wrong / float((end**2).sum()))
    got = rule.own_loss(setup.net, setup.params, setup.state, trace, setup.y)
    assert float(got.detach()) == pytest.approx(sum(shares) / len(shares), rel=1e-10)


def test_a_perfect_prediction_of_a_last_block_that_adds_nothing_gives_the_true_gradient_there() -> None:
    """If G were the identity at the last tap, its credit would be the gradient at h_L: the limit of the rule."""
    setup, _ = bridge("resmlp")

    class Perfect(StateBridge):
        def predicted(self, net: object, state: object, tap: int, h: Tensor, error: Tensor) -> Tensor:
            return h

    with torch.no_grad():
        for name in ("weight", "bias"):
            setup.params[f"blocks.2.w2.{name}"].zero_()
    setup.rule = Perfect()
    exact = Setup("bp", "resmlp")
    exact.params = setup.params
    torch.testing.assert_close(setup.credit()[-1], exact.credit()[-1], rtol=1e-9, atol=1e-13)
