"""Rules with an auxiliary net: the net by hand, its training, and the wall between it and the main net."""

from __future__ import annotations

from math import cos, erf, pi, sin, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from faudit.config import RunConfig
from faudit.experiment import prepare
from faudit.rules import RULES
from faudit.rules.auxiliary import AuxiliaryRule, time_of
from faudit.rules.rule import State
from faudit.store.run import Run
from faudit.train import fit, one_epoch, stream
from tests.support.nets import Setup, tiny_dataset
from tests.support.runs import QUICK, identical

AUXILIARY = ["state-bridge", "credit-bridge", "placebo"]
SMALL = {"auxiliary_width": 9, "auxiliary_depth": 2}


def by_hand(state: State, h: NDArray[np.float64], *beside: NDArray[np.float64], name: str = "aux") -> Tensor:
    """A(h, …) of one state, by loops over the layers in numpy."""
    w = {key: value.detach().numpy() for key, value in state.items()}
    normal = (h - h.mean()) / sqrt(h.var() + 1e-5)
    matrix = np.concatenate([w[f"{name}.in.{len(h)}.weight"], w[f"{name}.in.weight"]], axis=1)
    z = matrix @ np.concatenate([normal, *beside]) + w[f"{name}.in.bias"]
    layers = sorted(key for key in w if key.startswith(f"{name}.") and key.endswith(".weight") and ".in." not in key)
    for key in layers:  # "aux.1.weight" … "aux.out.weight"
        active = np.array([0.5 * value * (1 + erf(value / sqrt(2))) for value in z])
        z = w[key] @ active + w[key.replace("weight", "bias")]
    return torch.from_numpy(z)


def own_loss(setup: Setup, state: State | None = None) -> Tensor:
    """The loss of the auxiliary net, with the same noise every time."""
    rule = setup.rule
    assert isinstance(rule, AuxiliaryRule)
    trace = setup.net.trace_cut(setup.params, setup.x)
    loss = rule.own_loss(
        setup.net, setup.params, state or setup.state, trace, setup.y, generator=torch.Generator().manual_seed(2)
    )
    assert isinstance(loss, Tensor)
    return loss


def test_the_auxiliary_net_is_the_formula() -> None:
    setup = Setup("state-bridge", "resmlp", **SMALL)
    assert isinstance(setup.rule, AuxiliaryRule)
    h, error = torch.randn(2, 6, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    got = setup.rule.auxiliary(setup.state, h, time_of(setup.net, 2, h), error)
    angles = [2**k * pi * 2 / 3 for k in range(4)]
    tau = np.array([*map(sin, angles), *map(cos, angles)])
    for row in range(2):
        want = by_hand(setup.state, h[row].numpy(), tau, error[row].numpy())
        torch.testing.assert_close(got[row].detach(), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rule", AUXILIARY)
def test_one_net_serves_taps_of_every_width(rule: str) -> None:
    names = Setup(rule, "cnn", **SMALL).state
    assert {name for name in names if name.startswith("aux.in.") and name.count(".") == 3} == {
        f"aux.in.{width}.weight" for width in (512, 256, 128, 256)
    }
    assert [name for name in Setup(rule, "resmlp", **SMALL).state if name.startswith("aux.in.6")] == ["aux.in.6.weight"]


@pytest.mark.parametrize("net", ["resmlp", "cnn", "vit", "mlp"])
@pytest.mark.parametrize("rule", AUXILIARY)
def test_the_gradient_of_the_auxiliary_net_is_that_of_its_own_loss_alone(rule: str, net: str) -> None:
    """By central differences at one entry of every tensor."""
    setup = Setup(rule, net, **SMALL)
    grads = setup.grads()
    for name in filter(setup.rule.trains_state, setup.state):
        index = setup.state[name].numel() // 2
        values = []
        for shift in (1e-5, -1e-5):
            moved = setup.state[name].detach().clone()
            moved.view(-1)[index] += shift
            values.append(float(own_loss(setup, {**setup.state, name: moved}).detach()))
        want = (values[0] - values[1]) / 2e-5
        assert float(grads[name].flatten()[index]) == pytest.approx(want, rel=1e-4, abs=1e-8), name


@pytest.mark.parametrize("net", ["resmlp", "cnn", "vit", "mlp"])
@pytest.mark.parametrize("rule", AUXILIARY)
def test_no_gradient_of_the_own_loss_reaches_the_main_net(rule: str, net: str) -> None:
    setup = Setup(rule, net, **SMALL)
    grads = torch.autograd.grad(own_loss(setup), list(setup.params.values()), allow_unused=True)
    assert all(gradient is None for gradient in grads)


@pytest.mark.parametrize("rule", AUXILIARY)
def test_a_credit_has_no_graph(rule: str) -> None:
    setup = Setup(rule, "resmlp", **SMALL, **({"warmup": 0} if rule == "credit-bridge" else {}))
    trace = setup.net.trace_cut(setup.params, setup.x)
    credits = setup.rule.credit(setup.net, setup.params, setup.state, trace.taps, trace.logits.detach(), setup.y)
    assert not any(credit.requires_grad for credit in credits)


@pytest.mark.parametrize("rule", AUXILIARY)
def test_the_auxiliary_net_learns(rule: str) -> None:
    setup = Setup(rule, "resmlp")
    own = {name: value for name, value in setup.state.items() if setup.rule.trains_state(name)}
    optimizer = torch.optim.Adam(own.values(), lr=1e-3)
    losses = []
    for _ in range(60):
        losses.append(float(own_loss(setup).detach()))
        for name, gradient in setup.grads().items():
            if name in own:
                own[name].grad = gradient
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("rule", AUXILIARY)
def test_it_has_an_optimizer_of_its_own_without_decay(rule: str) -> None:
    config = RunConfig(rule=rule, optimizer="sgd", lr=0.5, weight_decay=0.1, depth=2, width=5, batch_size=16)
    experiment = prepare(config.with_(auxiliary_lr=0.01), tiny_dataset())
    before = {name: value.detach().clone() for name, value in experiment.state.rule_state.items()}
    one_epoch(experiment, 1)
    for name, value in experiment.state.rule_state.items():
        if experiment.rule.trains_state(name):
            assert float(experiment.state.optimizer.state_of(value)["step"]) == 4.0
            moved = float((value.detach() - before[name]).abs().max())
            assert 0.0 < moved < 0.06, "Adam moves an entry by about its rate a step"
        elif name.startswith("B."):
            assert torch.equal(value, before[name])


@pytest.mark.parametrize("rule", [*AUXILIARY, "frozen-credit-bridge"])
@pytest.mark.parametrize("stop_after", [2, 3])
def test_a_run_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path, rule: str, stop_after: int) -> None:
    """Trained state and its optimizer, the slow copy, the number of updates and the generator of the noise."""
    extra = {"warmup": 6} if "credit" in rule else {}  # 4 steps an epoch: the switch is inside the second
    config = QUICK.with_(rule=rule, auxiliary_width=16, train_size=512, **extra)
    run = Run(tmp_path / "a" / config.run_id)
    rows = stream(config, run)
    for _ in range(stop_after):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    identical(fit(config, tmp_path / "a"), fit(config, tmp_path / "b"))


@pytest.mark.parametrize("rule", AUXILIARY)
def test_the_null_draws_or_permutes_the_auxiliary_net_and_nothing_else(rule: str) -> None:
    setup = Setup(rule, "resmlp", **({"warmup": 0} if rule == "credit-bridge" else {}))
    reading = setup.reading()
    drawn = reading.fresh_credits(2)
    assert len(drawn) == 2
    for credits in drawn:
        for own, fresh in zip(reading.credits, credits, strict=True):
            cosine = torch.nn.functional.cosine_similarity(own.detach(), fresh.detach(), dim=1)
            assert float(cosine.abs().mean()) < 0.9
    kept = {name for name in setup.state if not setup.rule.is_feedback(name)}
    assert all(name == "updates" or name.startswith("slow.") for name in kept)


def test_every_rule_with_an_auxiliary_net_is_tested_here() -> None:
    plain = [name for name in RULES if name not in RULES.controls]
    assert [name for name in plain if issubclass(RULES[name], AuxiliaryRule)] == AUXILIARY
