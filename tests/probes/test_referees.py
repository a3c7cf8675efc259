"""The costly probes against slower computations, and where each must say that something is wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from faudit.probes.distribution import Distribution
from faudit.probes.linear import LinearProbe, accuracy
from faudit.probes.movement import Movement, turn
from faudit.probes.nudging import Nudging
from faudit.probes.precision import Precision
from faudit.probes.probe import Reading
from faudit.probes.rank import Rank, effective_rank
from faudit.probes.stability import Stability
from faudit.probes.update import Update
from faudit.probes.weights import Weights
from tests.support.nets import Setup
from tests.support.readings import per_sample_gradients, reading_of


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


def led_by(lead: float) -> Reading:
    """The right class leads by so much: a small error, and a small gradient, of a network that is well."""
    reading = reading_of(Setup("bp", "resmlp"), torch.float32)
    bias = torch.zeros(reading.net.classes)
    bias[0] = lead
    reading.params = {**reading.params, "readout.head.bias": bias}
    reading.y = torch.zeros_like(reading.y)
    return reading


def test_a_good_fit_is_no_fault_of_the_reference() -> None:
    """An error of e⁻⁸ is held by float32 and its gradient is sound; one of e⁻²⁰ is rounded to 0: nothing to ask."""
    row = Precision().measure(led_by(8.0))
    assert min(row["precision"]) > 0.999 and min(row["precision_agree"]) == 1.0 and row["precision_fitted"] == 0
    assert max(row["grad_relative"]) < 10
    lost = Precision().measure(led_by(20.0))
    assert lost["precision_agree"] == [None] * len(row["precision"]) and lost["precision_fitted"] == 7


@pytest.mark.parametrize(("size", "sound"), [(1.0, True), (1e8, False)])
def test_float32_that_has_lost_the_direction_is_found_out(size: float, sound: bool) -> None:
    """The same vector added to every row of the head changes no softmax, and drowns its logits in float32."""
    reading = reading_of(Setup("bp", "resmlp-no-norm"), torch.float32)
    head = reading.params["readout.head.weight"] + size * torch.ones(6, dtype=torch.float32)
    reading.params = {**reading.params, "readout.head.weight": head.float()}
    row = Precision().measure(reading)
    assert (min(row["precision_agree"]) == 1.0) is sound and (max(row["precision_agree"]) < 0.9) is not sound


def test_the_rank_of_the_reference_by_pairs_of_samples() -> None:
    reading = reading_of(Setup("dfa", "resmlp"))
    for tap, value in enumerate(Rank().measure(reading)["reference_rank"]):
        g = per_sample_gradients(reading, tap)
        units = g / np.linalg.norm(g, axis=1, keepdims=True)
        squares = [(a @ b) ** 2 for a, b in itertools.permutations(units, 2)]
        assert value == pytest.approx(1 / np.mean(squares), rel=1e-8)
    draw = torch.Generator().manual_seed(0)
    line = torch.outer(torch.randn(50, generator=draw), torch.randn(8, generator=draw))
    assert effective_rank(line) == pytest.approx(1.0)
    assert effective_rank(torch.randn(4000, 8, generator=draw)) == pytest.approx(8.0, rel=0.05)
    assert effective_rank(torch.randn(40, 900, generator=draw)) == effective_rank(torch.eye(40)) == 40, "no more than n"
    assert effective_rank(torch.zeros(4, 3)) is None and effective_rank(torch.ones(1, 3)) is None


def test_a_turn_is_the_sine_of_an_angle_and_weight_decay_is_none() -> None:
    a = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    assert turn(torch.tensor([[3.0, 4.0]]), a) == pytest.approx(0.8)
    assert turn(a, a) == 0.0 and turn(0.5 * a, a) == 0.0
    assert turn(torch.tensor([[3.0, 3e-9]], dtype=torch.float64), a) == pytest.approx(1e-9)
    assert turn(a, torch.zeros(1, 2)) == 1.0 and turn(torch.zeros(1, 2), a) == 0.0


def test_movement_is_that_of_the_least_matrix_of_a_block_and_unknown_without_a_beginning() -> None:
    setup = Setup("bp", "resmlp")
    began = {name: value.detach().clone() for name, value in setup.params.items()}
    reading = reading_of(setup)
    assert Movement().measure(reading) == {"block_turn": [None] * 3}
    reading.initial = began
    assert Movement().measure(reading) == {"block_turn": [0.0] * 3}
    for name in ("blocks.0.w1.weight", "blocks.0.w2.weight", "blocks.1.w1.weight"):
        began[name] = began[name].flip(0)
    turns = Movement().measure(reading)["block_turn"]
    expected = min(turn(setup.params[name], began[name]) for name in ("blocks.0.w1.weight", "blocks.0.w2.weight"))
    assert turns == [expected, 0.0, 0.0] and expected > 0.1


def test_the_weight_angle_of_dfa_is_between_feedback_and_head() -> None:
    reading = reading_of(Setup("dfa", "resmlp"))
    head, b = reading.params["readout.head.weight"].numpy(), reading.state["B.1"].numpy()
    wanted = np.mean([head[c] @ b[:, c] / np.linalg.norm(head[c]) / np.linalg.norm(b[:, c]) for c in range(len(head))])
    assert Weights().measure(reading)["weight_cosine"][1] == pytest.approx(wanted, rel=1e-9)
    assert Weights().measure(reading_of(Setup("bp", "resmlp")))["weight_cosine"] == []
    aligned = reading_of(Setup("dfa", "resmlp"))
    aligned.state = dict.fromkeys(aligned.state, aligned.params["readout.head.weight"].T)
    assert Weights().measure(aligned)["weight_cosine"] == pytest.approx([1.0] * 3)
    assert Weights().measure(aligned)["weight_angle"] == pytest.approx([0.0] * 3, abs=1e-6)


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


def test_the_distribution_of_gamma_is_that_of_the_samples_own_cosines() -> None:
    reading = reading_of(Setup("dfa", "resmlp"))
    row = Distribution().measure(reading)
    blocks, means = reading.net.blocks, []
    for block in range(blocks):
        g = per_sample_gradients(reading, reading.net.taught_at(block))
        a = reading.credits[block].numpy()
        angles = [u @ v / (np.linalg.norm(u) * np.linalg.norm(v)) for u, v in zip(a, g, strict=True)]
        assert row["gamma_quantiles"][block] == pytest.approx(np.quantile(angles, [0.05, 0.25, 0.5, 0.75, 0.95]))
        assert row["gamma_chance"][block] == pytest.approx(1.96 / math.sqrt(g.size))
        means.append(np.mean(angles))
    ends = [row["gamma_first"], row["gamma_interior"], row["gamma_last"]]
    assert ends == pytest.approx([means[0], np.mean(means[1:-1]), means[-1]])


def test_the_chance_band_holds_for_random_directions() -> None:
    draw = np.random.default_rng(0)
    n, d, inside = 50, 20, 0
    for _ in range(400):
        a, b = draw.normal(size=(2, n, d))
        mean = np.mean((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)))
        inside += abs(mean) < 1.96 / math.sqrt(n * d)
    assert 0.92 < inside / 400 < 0.98


@pytest.mark.parametrize("rule", ["dfa", "fa", "frozen-dfa"])
def test_the_update_is_held_against_bps_part_by_part(rule: str) -> None:
    setup = Setup(rule, "resmlp")
    row = Update().measure(reading_of(setup))
    own = setup.grads()
    true = Setup("bp", "resmlp").grads()
    parts = ["embed", *(f"blocks.{l}" for l in range(setup.net.blocks)), "readout"]
    for place, part in enumerate([*parts, ""]):
        names = [name for name in true if name.startswith(part)]
        u, v = (
            np.concatenate([g[name].numpy().ravel() if name in g else np.zeros(true[name].numel()) for name in names])
            for g in (own, true)
        )
        cosine = row["update_cosines"][place] if part else row["update_cosine"]
        ratio = row["update_ratios"][place] if part else row["update_ratio"]
        if not u.any():
            assert cosine is None and ratio is None
            continue
        assert cosine == pytest.approx(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))
        assert ratio == pytest.approx(np.linalg.norm(u) / np.linalg.norm(v))


def test_bps_update_is_its_own(net_name: str) -> None:
    row = Update().measure(reading_of(Setup("bp", net_name)))
    assert row["update_cosine"] == pytest.approx(1.0) and row["update_ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize("features", [3, 40])
def test_the_linear_probe_is_ridge_regression_whichever_form_is_smaller(features: int) -> None:
    draw = np.random.default_rng(features)
    x, y = 1e8 * (5.0 + draw.normal(size=(31, features))), draw.integers(3, size=31)
    a, b = x[::2], x[1::2]
    centre = a.mean(0)
    scale = np.sqrt(((a - centre) ** 2).mean())
    a, b = (a - centre) / scale, (b - centre) / scale
    targets = np.eye(3)[y[::2]]
    mean = targets.mean(0)
    weights = np.linalg.solve(a.T @ a + 1e-3 * len(a) * np.eye(features), a.T @ (targets - mean))
    wanted = np.mean((b @ weights + mean).argmax(1) == y[1::2])
    assert accuracy(torch.tensor(x), torch.tensor(y), 3) == pytest.approx(wanted)


def test_a_label_that_stands_in_the_state_is_read_and_one_that_does_not_is_not() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(4, (400,), generator=draw)
    noise = torch.randn(400, 16, generator=draw, dtype=torch.float64)
    told = accuracy(noise + 8 * F.one_hot(y, 16), y, 4)
    untold, constant = accuracy(noise, y, 4), accuracy(torch.ones(400, 3, dtype=torch.float64), y, 4)
    assert told is not None and told > 0.98 and untold is not None and untold < 0.4
    assert constant is not None and constant < 0.4
    assert accuracy(noise / 0, y, 4) is None


def test_every_tap_has_a_linear_probe(net_name: str) -> None:
    setup = Setup("dfa", net_name)
    assert len(LinearProbe().measure(reading_of(setup))["linear_acc"]) == setup.net.blocks + 1
