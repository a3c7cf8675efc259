"""Precision, stability and nudging against slower computations, and where each must say that something is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from faudit.probes.nudging import Nudging
from faudit.probes.precision import Precision
from faudit.probes.probe import Reading
from faudit.probes.stability import Stability
from tests.conftest import Setup


def reading_of(setup: Setup, dtype: torch.dtype = torch.float64) -> Reading:
    params = {name: value.detach().to(dtype) for name, value in setup.params.items()}
    state = {name: value.to(dtype) for name, value in setup.state.items()}
    return Reading(setup.net, setup.rule, params, state, setup.x.to(dtype), setup.y)


def per_sample_gradients(reading: Reading, tap: int) -> np.ndarray:
    """∂ℓ_i/∂h_l one sample at a time, in float64, each through a pass of its own."""
    out = []
    params = {name: value.double() for name, value in reading.params.items()}
    for i in range(len(reading.y)):
        h = reading.net.trace(params, reading.x[i : i + 1].double()).taps[tap].detach().requires_grad_()
        loss = F.cross_entropy(reading.net.onward(params, tap, h), reading.y[i : i + 1])
        out.append(reading.net.tap(torch.autograd.grad(loss, h)[0]).numpy()[0])
    return np.stack(out)


def test_a_network_in_float64_agrees_with_itself(net_name: str) -> None:
    row = Precision().measure(reading_of(Setup("dfa", net_name)))
    for name in ("precision", "precision_agree"):
        assert row[name] == pytest.approx([1.0] * (Setup("dfa", net_name).net.blocks + 1), abs=1e-12)


def test_the_gradient_relative_to_the_error_is_that_of_each_sample() -> None:
    reading = reading_of(Setup("dfa", "resmlp"))
    logits = reading.trace.logits.numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    errors = np.linalg.norm(p - np.eye(logits.shape[1])[reading.y.numpy()], axis=1)
    wanted = [
        np.median(np.linalg.norm(per_sample_gradients(reading, tap), axis=1) / errors)
        for tap in range(reading.net.blocks + 1)
    ]
    assert Precision().measure(reading)["grad_relative"] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("lead", "sound"), [(8.0, True), (20.0, False)])
def test_float32_that_has_lost_the_direction_is_found_out_and_a_small_gradient_alone_is_not(
    lead: float, sound: bool
) -> None:
    """The right class leads by so much that its error is e⁻⁸, which float32 holds, or e⁻²⁰, which it rounds to 0."""
    reading = reading_of(Setup("bp", "resmlp"), torch.float32)
    bias = torch.zeros(reading.net.classes)
    bias[0] = lead
    reading.params = {**reading.params, "readout.head.bias": bias}
    reading.y = torch.zeros_like(reading.y)
    row = Precision().measure(reading)
    assert max(row["grad_relative"]) < 10 and (min(row["precision"]) > 0.999) is sound
    assert (min(row["precision_agree"]) == 1.0) is sound


def test_stability_is_the_mean_cosine_between_the_mean_gradients_of_eight_batches() -> None:
    setup = Setup("dfa", "resmlp")
    x, y = setup.x.repeat(6, 1, 1, 1), setup.y.repeat(6)
    setup.x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    setup.y = y
    reading = reading_of(setup)
    size = len(y) // 8
    gradients = per_sample_gradients(reading, setup.net.blocks // 2)
    means = [gradients[k * size : (k + 1) * size].mean(axis=0) for k in range(8)]
    units = [mean / np.linalg.norm(mean) for mean in means]
    wanted = np.mean([a @ b for a, b in itertools.combinations(units, 2)])
    row = Stability().measure(reading)
    assert row == {"stability": pytest.approx(wanted, rel=1e-9), "stability_samples": size}


def test_a_reference_that_is_one_direction_has_stability_one_and_a_tiny_buffer_has_none() -> None:
    setup = Setup("bp", "resmlp")
    setup.x, setup.y = setup.x[:1].expand(16, *setup.x.shape[1:]), setup.y[:1].expand(16)
    assert Stability().measure(reading_of(setup))["stability"] == pytest.approx(1.0)
    setup.x, setup.y = setup.x[:7], setup.y[:7]
    assert Stability().measure(reading_of(setup)) == {"stability": None, "stability_samples": 0}


@pytest.mark.parametrize("net", ["resmlp", "vit", "cnn"])
def test_nudging_moves_one_percent_against_the_credit(net: str) -> None:
    setup = Setup("dfa", net)
    reading = reading_of(setup)
    row = Nudging().measure(reading)
    for block in range(setup.net.blocks):
        tap = setup.net.taught_at(block)
        relative: list[float] = []
        absolute: list[float] = []
        for i in range(len(setup.y)):
            h, y = reading.trace.taps[tap][i : i + 1], reading.y[i : i + 1]
            before = F.cross_entropy(setup.net.onward(reading.params, tap, h), y)
            a = reading.credits[block][i : i + 1]
            size = float(setup.net.tap(h).norm())
            for step, into in ((0.01 * size / float(a.norm()), relative), (0.01, absolute)):
                moved = h - setup.net.lift(step * a, h)
                into.append(float(F.cross_entropy(setup.net.onward(reading.params, tap, moved), y) - before))
        assert row["nudging"][block] == pytest.approx(np.mean(relative), rel=1e-8)
        assert row["nudging_study"][block] == pytest.approx(np.mean(absolute), rel=1e-8)


def test_nudging_along_the_true_gradient_lowers_the_loss_more_than_a_random_step(net_name: str) -> None:
    row = Nudging().measure(reading_of(Setup("bp", net_name)))
    for own, random in zip(row["nudging"], row["nudging_random"], strict=True):
        assert own < 0 and own < random


def test_blocks_that_are_taught_nothing_cannot_be_nudged() -> None:
    row = Nudging().measure(reading_of(Setup("frozen-dfa", "resmlp")))
    assert row["nudging"][1:] == [None] * (len(row["nudging"]) - 1) == row["nudging_study"][1:]
