"""ρ against a slow loop, its controls, and the step that the study gets wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.probes.perturbation import DIRECTIONS, DRAWS, STEP, Perturbation, directions
from faudit.probes.probe import Reading
from faudit.tensors import Correlation, cosines, norms
from faudit.train import fit
from tests.support.nets import Setup
from tests.support.readings import reading_of
from tests.support.runs import QUICK


@pytest.mark.parametrize("net", ["resmlp", "resmlp-no-residual", "vit", "cnn"])
def test_rho_equals_the_slow_loop(net: str) -> None:
    """One sample, one direction, one loss at a time; numpy's correlation at the end."""
    setup = Setup("dfa", net)
    reading = reading_of(setup, seed=5)
    row = Perturbation().measure(reading)
    n, block = len(setup.x), 1
    tap = setup.net.taught_at(block)
    predicted, true, crude = np.zeros((n, DIRECTIONS)), np.zeros((n, DIRECTIONS)), np.zeros((n, DIRECTIONS))
    params = {name: value.detach() for name, value in setup.params.items()}
    for k, v in enumerate(directions(reading, tap)):
        np.testing.assert_allclose(norms(v).numpy(), 1.0)
        for i in range(n):
            h = reading.trace.taps[tap][i : i + 1]
            size = float(setup.net.tap(h).norm())

            def loss(shift: float, h: torch.Tensor = h, i: int = i, v: torch.Tensor = v) -> float:
                moved = h.clone()
                setup.net.tap(moved).add_(shift * v[i : i + 1])  # a tap is a view of the state
                return float(F.cross_entropy(setup.net.onward(params, tap, moved), setup.y[i : i + 1]))

            true[i, k] = (loss(STEP * size) - loss(-STEP * size)) / (2 * STEP * size)
            crude[i, k] = (loss(STEP) - loss(0.0)) / STEP
            predicted[i, k] = float(reading.credits[block][i] @ v[i])
    per_sample = [np.corrcoef(predicted[i], true[i])[0, 1] for i in range(n)]
    assert row["rho"][block] == pytest.approx(np.mean(per_sample), abs=1e-7)
    assert row["rho_pooled"][block] == pytest.approx(np.corrcoef(predicted.ravel(), true.ravel())[0, 1], abs=1e-7)
    assert row["rho_study"][block] == pytest.approx(np.corrcoef(predicted.ravel(), crude.ravel())[0, 1], abs=1e-6)
    assert row["rho_undefined"][block] == 0


def test_controls_say_one_for_the_gradient_and_nothing_for_noise(net_name: str) -> None:
    row = Perturbation().measure(reading_of(Setup("bp", net_name), seed=5))
    assert all(value > 0.99 for value in row["rho_bp"])
    np.testing.assert_allclose(row["rho"], row["rho_bp"])  # BP's credit is the gradient
    assert all(abs(value) < 0.5 for value in row["rho_random"])
    assert row["rho_null_mean"] == row["gamma_null_place"] == [None] * len(row["rho"])


def test_blocks_side_by_side_give_the_numbers_of_one_after_another_and_the_threads_come_back() -> None:
    setup = Setup("dfa", "resmlp")
    alone = Perturbation().measure(reading_of(setup, seed=5))
    try:
        torch.set_num_threads(2)
        assert Perturbation().measure(reading_of(setup, seed=5)) == alone and torch.get_num_threads() == 2
        broken = reading_of(setup, seed=5)
        broken.credits = []  # whatever fails, the threads come back
        with pytest.raises(IndexError):
            Perturbation().measure(broken)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_the_null_is_the_distribution_over_fresh_feedback() -> None:
    setup = Setup("dfa", "resmlp")
    reading = reading_of(setup, seed=5)
    row = Perturbation().measure(reading)
    for block in range(setup.net.blocks):
        gradient = reading.gradients[setup.net.taught_at(block)]
        draws = []
        for draw in range(DRAWS):
            state = setup.rule.init(setup.net, setup.x[:1], reading.generator(f"feedback.{draw}"))
            matrix = state[f"B.{block}"].double()
            error = F.softmax(reading.trace.logits, 1) - F.one_hot(setup.y, setup.net.classes)
            draws.append(float(cosines(error @ matrix.T, gradient).mean()))
        assert len(set(draws)) == DRAWS
        assert row["gamma_null_mean"][block] == pytest.approx(np.mean(draws), rel=1e-9)
        assert row["gamma_null_std"][block] == pytest.approx(np.std(draws, ddof=1), rel=1e-9)
        trained = float(cosines(reading.credits[block], gradient).mean())
        assert row["gamma_null_place"][block] == np.mean([draw < trained for draw in draws])


def test_feedback_that_is_the_gradient_stands_out_of_the_null() -> None:
    """B = Wᵀ without terminal norm: the last block's credit is the gradient itself."""
    setup = Setup("dfa", "resmlp-no-norm")
    setup.state["B.2"] = setup.params["readout.head.weight"].detach().T.clone()
    row = Perturbation().measure(reading_of(setup, seed=5))
    assert row["rho"][2] > 0.9 and row["gamma_null_place"][2] == row["rho_null_place"][2] == 1.0


def test_an_exploded_stream_breaks_the_studys_step_and_not_ours() -> None:
    setup = Setup("bp", "resmlp")
    single = {name: value.detach().float() for name, value in setup.params.items()}
    single["embed.weight"] *= 1e7
    row = Perturbation().measure(Reading(setup.net, setup.rule, single, {}, setup.x.float(), setup.y, seed=1))
    assert all(value > 0.99 for value in row["rho_bp"])
    assert all(value is None or value < 0.9 for value in row["rho_study"])


def test_correlation_against_numpy_even_with_a_large_offset() -> None:
    draw = np.random.default_rng(0)
    x, y = 1e8 + draw.normal(size=(4, 50)), -1e8 + draw.normal(size=(4, 50))
    y[0] += 3 * x[0]
    y[3] = 7.0  # a side that never changes
    held, shared = Correlation(4), Correlation(4, 4)
    for columns in (slice(0, 1), slice(1, 8), slice(8, 50)):
        held.add(torch.tensor(x[:, columns]), torch.tensor(y[:, columns]))
        shared.add(torch.tensor(x[:, None, columns]).expand(4, 4, -1), torch.tensor(y[:, columns]))
    rows = held.per_row()
    np.testing.assert_allclose(shared.per_row().diagonal().numpy(), rows.numpy())  # row i, j is of x_i and y_j
    np.testing.assert_allclose(rows[:3].numpy(), [np.corrcoef(x[i], y[i])[0, 1] for i in range(3)], atol=1e-6)
    assert math.isnan(float(rows[3]))
    alone = Correlation(1)
    for k in range(5):
        alone.add(torch.tensor([[float(k)]]), torch.tensor([[1.0]]))
    assert alone.pooled() is None


def test_costly_probes_run_at_the_asked_epochs_and_then_at_the_end(tmp_path: Path) -> None:
    plain = fit(QUICK.with_(rule="dfa"), tmp_path)
    run = fit(QUICK.with_(rule="dfa", log_every=2, probe_epochs=(1,)), tmp_path)
    assert [(row["epoch"], "rho" in row) for row in run.rows()] == [(0, False), (1, True), (2, False), (3, True)]
    last, same = run.rows()[-1], plain.rows()[-1]
    assert [last[name] for name in ("gamma", "loss_eval", "hidden_norms")] == [
        same[name] for name in ("gamma", "loss_eval", "hidden_norms")
    ]


def test_checkpoints_are_kept_at_chosen_epochs(tmp_path: Path) -> None:
    from faudit.store.checkpoint import load, weights

    run = fit(QUICK.with_(keep_epochs=(0, 2)), tmp_path)
    assert sorted(path.name for path in run.path.glob("epoch-*")) == ["epoch-0.safetensors", "epoch-2.safetensors"]
    assert load(run.kept(2))[1]["epoch"] == 2
    shorter = weights(run.kept(0))
    assert not torch.equal(shorter["embed.weight"], weights(run.kept(2))["embed.weight"])


def test_epochs_past_the_last_are_refused() -> None:
    with pytest.raises(ConfigError, match="probe-epochs: expected epochs up to the last, 3, got 9"):
        RunConfig(epochs=3, probe_epochs=(1, 9))
    assert RunConfig.parse({"keep-epochs": ["2", "1"]}, where="x").keep_epochs == (1, 2)
    with pytest.raises(ConfigError, match="keep-epochs: expected a list of epochs"):
        RunConfig(keep_epochs=3)
