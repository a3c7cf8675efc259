"""Placebo: its auxiliary net knows nothing of the loss, and without it the rule is DFA."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from faudit.rules.placebo import Placebo
from tests.support.nets import Setup


def placebo(net: str = "resmlp", **settings: Any) -> tuple[Setup, Placebo]:
    setup = Setup("placebo", net, **{"auxiliary_width": 9, "auxiliary_depth": 2, **settings})
    assert isinstance(setup.rule, Placebo)
    return setup, setup.rule


def test_the_share_of_the_auxiliary_net_does_not_depend_on_labels_or_logits(net_name: str) -> None:
    setup, _ = placebo(net_name, placebo_weight=1.0)
    before = setup.credit()
    own = {name: grad for name, grad in setup.grads().items() if setup.rule.trains_state(name)}
    setup.y = (setup.y + 1) % setup.net.classes
    with torch.no_grad():
        for name, value in setup.params.items():
            if name.startswith("readout."):
                value.add_(1.0)
    for one, other in zip(before, setup.credit(), strict=True):
        assert torch.equal(one, other)
    after = setup.grads()
    assert all(torch.equal(own[name], after[name]) for name in own), "what the auxiliary net learns is blind too"


@pytest.mark.parametrize("weight", [0.0, 0.4, 0.75])
def test_the_credit_is_the_weighted_sum_of_dfas_and_the_slope_of_the_auxiliary_net(weight: float) -> None:
    setup, rule = placebo(placebo_weight=weight)
    trace = setup.net.trace(setup.params, setup.x)
    error = setup.net.output_error(trace.logits, setup.y)
    with torch.no_grad():
        for tap, credit in enumerate(setup.credit()):
            h = trace.taps[tap]
            direction = torch.randn(h.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(tap))
            ends = [rule.value(setup.net, setup.state, tap, h + s * direction) for s in (1e-5, -1e-5)]
            direct = error @ setup.state[f"B.{tap}"].T
            blind = rule.blind(setup.net, setup.state, trace.taps)[tap]
            torch.testing.assert_close((blind * direction).sum(1), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-9)
            rms = [part.square().mean(1, keepdim=True).sqrt() + rule.credit_eps for part in (direct, blind)]
            want = (1 - weight) * direct / rms[0] + weight * blind / rms[1]
            torch.testing.assert_close(credit, want, rtol=1e-9, atol=1e-12)


def test_without_its_share_the_main_net_learns_as_under_dfa(net_name: str) -> None:
    """The credit is normalised twice, so a large ε would act twice."""
    setup, _ = placebo(net_name, placebo_weight=0.0, credit_eps=1e-14)
    dfa = Setup("dfa", net_name, credit_eps=1e-14)
    dfa.state = {name: value for name, value in setup.state.items() if name.startswith("B.")}
    got, want = setup.grads(), dfa.grads()
    for name, value in want.items():
        torch.testing.assert_close(got[name], value, rtol=1e-9, atol=1e-12, msg=name)


def test_the_noise_is_drawn_from_the_generator_of_the_step() -> None:
    setup, rule = placebo()
    losses = []
    for seed in (1, 1, 2):
        trace = setup.net.trace_cut(setup.params, setup.x)
        draw = torch.Generator().manual_seed(seed)
        loss = rule.own_loss(setup.net, setup.params, setup.state, trace, setup.y, generator=draw)
        losses.append(float(loss.detach()))
    assert losses[0] == losses[1] != losses[2]


def test_the_own_loss_is_the_squared_gap_to_the_noise_by_hand() -> None:
    setup, rule = placebo()
    trace = setup.net.trace_cut(setup.params, setup.x)
    draw, gaps = torch.Generator().manual_seed(3), []
    for tap in range(setup.net.signals):
        noise = torch.randn(len(setup.x), dtype=torch.float64, generator=draw)
        values = rule.value(setup.net, setup.state, tap, trace.taps[tap]).detach()
        gaps += [float((v - z) ** 2) for v, z in zip(values, noise, strict=True)]
    draw = torch.Generator().manual_seed(3)
    got = rule.own_loss(setup.net, setup.params, setup.state, trace, setup.y, generator=draw)
    assert float(got.detach()) == pytest.approx(sum(gaps) / len(gaps), rel=1e-10)
