"""EP: relaxation held against closed forms and steps by hand, BP as its limit, and phases that diverge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import ConfigError, Diverged
from faudit.nets.mlp import MLP
from faudit.nets.net import Net
from faudit.rules.ep import EP
from faudit.train import fit
from tests.support.nets import CLASSES, Setup
from tests.support.runs import QUICK

LINEAR = MLP((1, 1, 3), CLASSES, sizes=(4, 2), activation="linear", criterion="mse")
SAMPLES = 6


class Linear:
    """A linear net with a squared error, and its energies as quadratic forms ½ sᵀHs − gᵀs for each sample."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.params = {name: value.double().requires_grad_() for name, value in LINEAR.init(draw).items()}
        self.x = torch.randn(SAMPLES, 1, 1, 3, dtype=torch.float64, generator=draw)
        self.y = torch.randint(CLASSES, (SAMPLES,), generator=draw)
        flat = {name: value.detach().numpy() for name, value in self.params.items()}
        self.w = [flat["blocks.0.weight"], flat["blocks.1.weight"], flat["readout.weight"]]
        self.b = [flat["blocks.0.bias"], flat["blocks.1.bias"], flat["readout.bias"]]
        self.targets = np.eye(CLASSES)[self.y.numpy()]

    def forward(self, sample: int) -> list[np.ndarray[Any, Any]]:
        states = [self.x[sample].flatten().numpy()]
        for w, b in zip(self.w, self.b, strict=True):
            states.append(w @ states[-1] + b)
        return states

    def relaxed(self, rule: EP, sample: int) -> list[np.ndarray[Any, Any]]:
        """The states after T steps: s* + (1 − dt H)^T (s_free − s*), with s* the minimum of the total energy."""
        x, h_1, h_2, logits = self.forward(sample)
        free = [x, h_1, h_2] if rule.energy == "residual" else [h_1, h_2, logits]
        sizes = [len(state) for state in free]
        ends = np.cumsum([0, *sizes])

        def rows(state: int) -> np.ndarray[Any, Any]:
            return np.eye(ends[-1])[ends[state] : ends[state + 1]]

        # Each term weight·‖R s − v‖²/2 adds weight·RᵀR to H and weight·Rᵀv to g.
        if rule.energy == "residual":
            terms = [(rows(0), x, 1.0)]
            terms += [(rows(l + 1) - self.w[l] @ rows(l), self.b[l], 1.0) for l in (0, 1)]
            terms.append((self.w[2] @ rows(2), self.targets[sample] - self.b[2], rule.beta))
        else:
            terms = [(rows(0), h_1, 2.0)]
            terms += [(rows(l) - self.w[l] @ rows(l - 1), self.b[l], 2.0) for l in (1, 2)]
            terms.append((rows(2), self.targets[sample], rule.beta))
        hessian = sum(weight * r.T @ r for r, _, weight in terms)
        pull = sum(weight * r.T @ v for r, v, weight in terms)
        start, rest = np.concatenate(free), np.linalg.solve(hessian, pull)
        shrunk = np.linalg.matrix_power(np.eye(ends[-1]) - rule.step_size * hessian, rule.steps)
        end = rest + shrunk @ (start - rest)
        return [end[ends[k] : ends[k + 1]] for k in range(3)]


@pytest.mark.parametrize("energy", ["residual", "layered"])
@pytest.mark.parametrize("steps", [1, 7, 40])
def test_on_a_linear_net_the_update_is_that_of_the_closed_form(energy: str, steps: int) -> None:
    """The contrast (1/β) ∂(E + βℓ)/∂θ written out: −Σ (residual) (input)ᵀ/β, and the loss of the readout."""
    rule, linear = EP(energy=energy, beta=0.7, steps=steps, step_size=0.15), Linear()
    want = {name: np.zeros_like(value.detach().numpy()) for name, value in linear.params.items()}
    names = ["blocks.0", "blocks.1", "readout"]
    for sample in range(SAMPLES):
        states = linear.relaxed(rule, sample)
        if energy == "residual":
            pairs = [(states[0], states[1]), (states[1], states[2])]
            factor = 1.0 / rule.beta
            wrong = linear.w[2] @ states[2] + linear.b[2] - linear.targets[sample]  # ∂ℓ/∂z, at the nudged h_L
            want["readout.weight"] += np.outer(wrong, states[2]) / SAMPLES
            want["readout.bias"] += wrong / SAMPLES
        else:
            inputs = [linear.x[sample].flatten().numpy(), states[0], states[1]]
            pairs = list(zip(inputs, states, strict=True))
            factor = 2.0 / rule.beta
        for l, (before, after) in enumerate(pairs):
            residual = after - linear.w[l] @ before - linear.b[l]
            want[f"{names[l]}.weight"] -= factor * np.outer(residual, before) / SAMPLES
            want[f"{names[l]}.bias"] -= factor * residual / SAMPLES
    got = rule.step(LINEAR, linear.params, {}, linear.x, linear.y).grads
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("energy", ["residual", "layered"])
def test_the_credit_is_minus_the_shift_of_the_taps_over_beta(energy: str) -> None:
    rule, linear = EP(energy=energy, beta=0.7, steps=9, step_size=0.15), Linear()
    trace = LINEAR.trace(linear.params, linear.x)
    credits = rule.credit(LINEAR, linear.params, {}, trace.taps, trace.logits, linear.y)
    assert len(credits) == 3
    for sample in range(SAMPLES):
        x, h_1, h_2, _ = linear.forward(sample)
        states = linear.relaxed(rule, sample)
        taps = states if energy == "residual" else [x, *states[:2]]  # the activation is the identity
        for credit, free, nudged in zip(credits, (x, h_1, h_2), taps, strict=True):
            np.testing.assert_allclose(credit[sample].numpy(), -(nudged - free) / 0.7, rtol=1e-9, atol=1e-12)
    assert bool(credits[0].any()) is (energy == "residual"), "the input of the layered net is fixed"


def test_one_step_moves_the_last_state_alone_and_teaches_the_last_block_dt_times_bp(net_name: str) -> None:
    """From the forward pass only the loss pulls: s_L = h_L − dt·β·∂ℓ/∂h_L, so E is ½‖dt·β·g_L‖²."""
    one, bp = Setup("ep", net_name, steps=1, step_size=0.3), Setup("bp", net_name)
    got, want = one.grads(), bp.grads()
    last = f"blocks.{one.net.blocks - 1}."
    for name in want:
        if name.startswith(last):
            torch.testing.assert_close(got[name], 0.3 * want[name], rtol=1e-9, atol=1e-13, msg=name)
        elif not name.startswith("readout."):
            assert float(got[name].abs().max()) < 1e-13, name  # kernels with and without a graph round apart
    trace = one.net.trace(one.params, one.x)
    h = (trace.taps[-1] - 0.3 * 0.5 * end_gradient(one, trace.taps[-1])).detach()
    loss = one.net.loss(one.net.readout(one.params, h), one.y)
    head = {name: one.params[name] for name in want if name.startswith("readout.")}
    for name, gradient in zip(head, torch.autograd.grad(loss, list(head.values())), strict=True):
        torch.testing.assert_close(got[name], gradient, rtol=1e-9, atol=1e-13, msg=name)


def end_gradient(setup: Setup, h: Tensor) -> Tensor:
    h = h.detach().requires_grad_()
    loss = setup.net.loss(setup.net.readout(setup.params, h), setup.y, reduction="sum")
    return torch.autograd.grad(loss, h)[0]


# The scale of the embedding: the LayerNorm of a small state has steep slopes, and its relaxation takes tiny steps.
LIMITS = [(energy, net, 1.0) for energy in ("residual", "layered") for net in ("mlp", "mlp-one")]
LIMITS += [("residual", "student", 1.0), ("residual", "resmlp", 10.0)]
SLOW_LIMIT = pytest.param("residual", "vit", 60.0, marks=pytest.mark.slow)


@pytest.mark.parametrize(("energy", "net", "scale"), [*LIMITS, SLOW_LIMIT])
def test_in_the_limit_of_a_small_beta_the_update_is_that_of_bp(energy: str, net: str, scale: float) -> None:
    """With an error of the order of β."""
    exact = flat(scaled(Setup("bp", net), scale).grads())
    wrong = []
    for beta in (1e-1, 1e-2):
        setup = Setup("ep", net, energy=energy, beta=beta, steps=400, step_size=0.2)
        wrong.append(float((flat(scaled(setup, scale).grads()) - exact).norm() / exact.norm()))
    assert wrong[1] < 0.02 and 5 < wrong[0] / wrong[1] < 12


def scaled(setup: Setup, factor: float) -> Setup:
    with torch.no_grad():
        for name, value in setup.params.items():
            value.mul_(factor if name.startswith("embed.") else 1.0)
    return setup


def flat(grads: dict[str, Tensor]) -> Tensor:
    return torch.cat([grads[name].flatten() for name in sorted(grads)])


def test_the_first_credit_of_the_residual_energy_is_in_the_limit_the_gradient() -> None:
    ep, bp = Setup("ep", "student", beta=1e-5, steps=600, step_size=0.3), Setup("bp", "student")
    torch.testing.assert_close(ep.credit()[0], bp.credit()[0], rtol=1e-3, atol=1e-6)


def test_every_token_of_a_vit_relaxes() -> None:
    setup = Setup("ep", "vit")
    assert isinstance(setup.rule, EP)
    trace = setup.net.trace({name: value.detach() for name, value in setup.params.items()}, setup.x)
    nudged = setup.rule.nudged(setup.net, setup.params, trace.taps, setup.y)
    for free, moved in zip(trace.taps[:-1], nudged[:-1], strict=True):
        assert bool((free != moved).flatten(2).any(2).all()), "a token stood still"


def test_a_sample_relaxes_alone() -> None:
    setup = Setup("ep", "resmlp")
    together = setup.credit()
    setup.x, setup.y = setup.x[2:3], setup.y[2:3]
    for all_, one in zip(together, setup.credit(), strict=True):
        torch.testing.assert_close(all_[2:3], one, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_relaxation_that_diverges_ends_the_run_with_its_phase(tmp_path: Path, dtype: str) -> None:
    """In float64 twenty steps of a factor of thousands overflow nothing: the energy tells."""
    run = fit(QUICK.with_(rule="ep", step_size=2.0, dtype=dtype), tmp_path)
    outcome = run.outcome()
    assert run.status == "failed" and outcome is not None
    assert outcome["phase"] == "nudged" and outcome["epoch"] == 1 and [row["epoch"] for row in run.rows()] == [0]
    assert outcome["reason"].startswith("diverged in the nudged phase: its energy rose from")
    assert not (run.path / "done.json").exists() and fit(QUICK.with_(rule="ep", step_size=2.0, dtype=dtype), tmp_path)


def test_a_forward_pass_that_overflows_is_the_free_phase() -> None:
    setup = Setup("ep", "student")
    with torch.no_grad():
        setup.params["readout.weight"].fill_(float("inf"))
    with pytest.raises(Diverged, match="diverged in the free phase: the loss is") as caught:
        setup.grads()
    assert caught.value.phase == "free"


def test_a_fitted_batch_is_no_divergence() -> None:
    """The energy of its start is zero, and rounding alone makes it rise."""
    setup = Setup("ep", "student", step_size=0.4)
    params = {name: value.detach().float() for name, value in setup.params.items()}
    params["embed.weight"] *= 1e4
    params["readout.weight"] *= 0.0
    params["readout.bias"] = torch.zeros(CLASSES)
    params["readout.bias"][3] = 1e3
    params = {name: value.requires_grad_() for name, value in params.items()}
    y = torch.full((7,), 3)
    step = setup.rule.step(setup.net, params, {}, setup.x.float(), y)
    assert float(step.loss) == 0.0 and all(bool(grad.isfinite().all()) for grad in step.grads.values())


def test_what_cannot_work_is_refused_in_one_line(tmp_path: Path) -> None:
    for settings in ({"beta": 0}, {"beta": -1.0}, {"steps": 0}, {"step_size": 0.0}, {"energy": "hopfield"}):
        with pytest.raises(ConfigError) as caught:
            RunConfig(rule="ep", **settings)
        assert "\n" not in str(caught.value) and "expected" in str(caught.value)
    with pytest.raises(ConfigError, match="ep cannot train net resmlp: the layered energy needs plain layers"):
        fit(QUICK.with_(rule="ep", energy="layered"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("net", [MLP((1, 4, 4), CLASSES, sizes=(8, 8), batch_norm=True, dropout=0.3)])
@pytest.mark.parametrize("energy", ["residual", "layered"])
def test_all_passes_of_a_step_share_masks_and_write_statistics_once(net: Net, energy: str) -> None:
    draw = torch.Generator().manual_seed(0)
    params = {name: value.double() for name, value in net.init(draw).items()}
    for name, value in params.items():
        value.requires_grad_("running" not in name)
    x, y = torch.randn(9, 1, 4, 4, dtype=torch.float64, generator=draw), torch.arange(9) % CLASSES
    one, two = dict(params), {name: value.detach().clone() for name, value in params.items()}
    net.in_training(torch.Generator().manual_seed(1)).trace(two, x)
    EP(energy=energy).step(net.in_training(torch.Generator().manual_seed(1)), one, {}, x, y)
    assert all(torch.equal(one[name], two[name]) for name in params)
