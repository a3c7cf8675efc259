"""The pitfalls that the paper lists, each by its name.

On our code a test passes; with its pitfall planted it fails (``tests/test_mutations.py`` plants each of them).
"""

from __future__ import annotations

import math
from contextlib import suppress
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from faudit.audit.checks.check import FIRED, Case
from faudit.audit.checks.null import Null, score
from faudit.audit.judge import TRUSTWORTHY
from faudit.audit.measure import measure, reading_of
from faudit.audit.strategies import accuracy_and_gamma
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import CheckpointError, ConfigError
from faudit.figures.figure import deep
from faudit.papers.faeval.export import to_entry
from faudit.probes import PROBES
from faudit.probes.alignment import Alignment
from faudit.probes.distribution import Distribution
from faudit.probes.gradients import Gradients
from faudit.probes.norms import Norms
from faudit.probes.precision import Precision
from faudit.probes.probe import Reading, measured
from faudit.store import checkpoint
from faudit.store.rows import Row
from faudit.store.run import Run
from faudit.train import fit
from tests.support.edges import at_edge
from tests.support.nets import Setup
from tests.support.readings import per_sample_gradients


def made_of(credits: list[list[list[float]]], gradients: list[list[list[float]]]) -> Reading:
    """A reading with these credits at its three blocks and these gradients at its taps, per block and sample."""
    setup = Setup("dfa", "resmlp")
    reading = Reading(setup.net, setup.rule, setup.params, setup.state, setup.x, setup.y)
    reading.credits, reading.gradients = ([torch.tensor(one) for one in held] for held in (credits, gradients))
    reading.fitted = torch.zeros(len(credits[0]), dtype=torch.bool)
    return reading


# `tensor.norm(-1)`: an L₋₁ norm of everything.


def test_a_norm_is_of_each_sample_over_its_features() -> None:
    """Lengths 5, 13 and 25: the median is 13; (Σ 1/|x|)⁻¹ over all entries is less than any of them."""
    vectors = [[3.0, 4.0], [5.0, 12.0], [7.0, 24.0]]
    reading = made_of([vectors] * 3, [vectors] * 4)
    reading.taps = [torch.tensor(vectors)] * 4
    assert Norms().measure(reading) == {"hidden_norms": [13.0] * 4}
    row = Gradients().measure(reading)
    assert row["grad_norms"] == [13.0] * 4
    assert row["grad_norms_frobenius"] == pytest.approx([math.sqrt(25 + 169 + 625)] * 4)
    assert float(torch.tensor(vectors).norm(-1)) < 2, "the pitfall would show here"


# The 1e-8 clamp inside F.cosine_similarity.


def test_gamma_of_a_gradient_far_below_1e_8_is_not_pulled_to_zero() -> None:
    """At ‖h‖ ≈ 1e8 the gradient is 1e-8 and below, and the library's cosine is a fraction of the true one."""
    _, reading = at_edge("exploded", "dfa")
    gamma = Alignment().measure(reading)["gamma"]
    for block in range(3):
        g, a = per_sample_gradients(reading, block), reading.credits[block].double().numpy()
        true = np.mean((a * g).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(g, axis=1))
        library = float(torch.nn.functional.cosine_similarity(reading.credits[block], reading.gradients[block]).mean())
        assert gamma[block] == pytest.approx(true, abs=1e-5)
        assert abs(library - true) > 0.05 * abs(true), "the pitfall would show here"


# fp16 underflow: numbers below 6e-8 are zero.


def test_gradients_below_what_float16_holds_keep_their_size_and_direction() -> None:
    _, reading = at_edge("exploded", "dfa")
    for tap, size in enumerate(Gradients().measure(reading)["grad_norms"]):
        wanted = np.median(np.linalg.norm(per_sample_gradients(reading, tap), axis=1))
        assert wanted < 6e-8 and size == pytest.approx(wanted, rel=1e-4)
    assert Precision().measure(reading)["precision_agree"] == [1.0] * 4


def test_a_gradient_that_went_through_float16_is_found_out_and_has_no_gamma() -> None:
    spoiled = copy(at_edge("exploded", "dfa")[1])
    spoiled.gradients = [g.half().float() for g in spoiled.gradients]
    assert Precision().measure(spoiled)["precision_agree"] == [0.0] * 4
    row = Alignment().measure(spoiled)
    assert row == {"gamma": [None] * 3, "gamma_undefined": [len(spoiled.y)] * 3, "fitted": 0}


def test_no_run_is_trained_or_measured_in_float16() -> None:
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(ConfigError, match="dtype"):
            RunConfig(dtype=dtype)


# Not saving B: Γ of a checkpoint under feedback that it was not trained with.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = RunConfig(rule="dfa", epochs=2, width=16, depth=2, batch_size=128, eval_size=64)
    return fit(config, tmp_path_factory.mktemp("pitfalls"))


def rewritten(run: Run, path: Path, change: dict[str, torch.Tensor | None]) -> Run:
    """A copy of a run whose checkpoint has some tensors changed, or left out where None; whole by its checksum."""
    other = Run(path / run.path.name)
    other.path.mkdir()
    for file in run.path.iterdir():
        (other.path / file.name).write_bytes(file.read_bytes())
    held, header = checkpoint.load(run.checkpoint)
    tensors = {name: value for name, value in {**held, **change}.items() if value is not None}
    ties = {name: header[name] for name in ("run_id", "rows")}
    checkpoint.write(other.checkpoint, tensors, header["epoch"], ties=ties)
    return other


def test_a_checkpoint_is_measured_with_the_feedback_it_was_trained_with(trained: Run) -> None:
    reading, epoch = reading_of(trained, trained.config(), data_dir=None)
    assert epoch == 2 and Alignment().measure(reading)["gamma"] == pytest.approx(trained.rows()[-1]["gamma"], abs=1e-6)


def test_another_feedback_in_the_checkpoint_is_another_gamma(trained: Run, tmp_path: Path) -> None:
    """Feedback that the seed cannot give again: who draws it afresh, by whatever seed, measures another network."""
    held, _ = checkpoint.load(trained.checkpoint)
    draw = torch.Generator().manual_seed(99)
    other = {
        name: torch.randn(value.shape, generator=draw) for name, value in held.items() if name.startswith("rule/B.")
    }
    assert len(other) == 2
    changed = rewritten(trained, tmp_path, {**other})
    reading, _ = reading_of(changed, changed.config(), data_dir=None)
    assert all(torch.equal(reading.state[name[len("rule/") :]], value) for name, value in other.items())
    gamma = Alignment().measure(reading)["gamma"]
    assert all(abs(a - b) > 1e-3 for a, b in zip(gamma, trained.rows()[-1]["gamma"], strict=True))


@pytest.mark.parametrize("missing", ["rule/B.0", "rule/B.1", "net/blocks.1.w1.weight"])
def test_a_checkpoint_that_lacks_a_tensor_is_refused_and_not_judged(
    trained: Run, tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = rewritten(trained, tmp_path, {missing: None})
    with pytest.raises(
        CheckpointError, match=r"got a difference in |its weights are not those that the run ended with"
    ):
        measure(changed, changed.config(), [], data_dir=None)
    assert main(["audit", str(changed.path)]) == 2
    said = capsys.readouterr().err
    assert "is damaged" in said and len(said.splitlines()) == 1


# A missing auxiliary net silently replaced by a perfect score.


def test_a_rule_that_lacks_a_tensor_of_its_state_never_scores(rule_name: str) -> None:
    """It raises, or the tensor plays no part: without it the numbers are the same."""
    setup = Setup(rule_name, "resmlp")
    for name in setup.state:
        state = {other: value for other, value in setup.state.items() if other != name}
        with suppress(KeyError):
            found = setup.rule.step(
                setup.net, setup.params, state, setup.x, setup.y, generator=torch.Generator().manual_seed(2)
            )
            whole = setup.step()
            assert found.grads.keys() == whole.grads.keys(), name
            assert all(torch.equal(found.grads[one], whole.grads[one]) for one in whole.grads), name
        for probe in ("alignment", "nudging", "distribution"):
            with suppress(KeyError):
                part = Reading(setup.net, setup.rule, setup.params, state, setup.x, setup.y)
                assert measured(PROBES[probe], part) == measured(PROBES[probe], setup.reading()), (probe, name)


@pytest.mark.parametrize("name", ["dfa", "fa", "fa-weights", "dfa-layers"])
def test_fixed_feedback_that_is_missing_is_named(name: str) -> None:
    setup = Setup(name, "resmlp")
    for matrix in setup.state:
        state = {other: value for other, value in setup.state.items() if other != matrix}
        with pytest.raises(KeyError, match=matrix):
            setup.rule.step(setup.net, setup.params, state, setup.x, setup.y)


# Aggregating Γ in different ways: −.03 to +.07 from the same run.


def test_gamma_is_the_mean_over_samples_of_each_samples_own_cosine() -> None:
    """cos = 1, 0 and −.6, whatever the lengths: .1333. All samples as one vector, or their mean, would give 1."""
    credit = [[900.0, 0.0], [0.0, 1.0], [3.0, 4.0]]
    gradient = [[2e6, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    row = Alignment().measure(made_of([credit] * 3, [gradient] * 4))
    assert row["gamma"] == pytest.approx([0.4 / 3] * 3)


def test_headline_deep_interior_first_and_last_of_one_row_by_hand() -> None:
    """Γ = (.4, −.1, .3, .8): headline .35, deep 1/3, interior .1. One row, and they do not meet."""
    row = Row(gamma=[0.4, -0.1, 0.3, 0.8], hidden_norms=[1.0] * 5, grad_norms=[1.0] * 5)
    row |= {"epoch": 1, "grad_norms_frobenius": [1.0] * 5, "acc_eval": 0.5, "loss_eval": 1.0}
    assert to_entry(row, RunConfig(rule="dfa"), key="dfa_log")["gamma_dfa"] == pytest.approx(0.35)
    assert deep("gamma")(row) == pytest.approx(1 / 3)
    assert to_entry(Row(row, gamma=[0.4, None]), RunConfig(rule="dfa"), key="dfa_log")["gamma_dfa"] is None

    cosines = [0.4, -0.1, 0.8]
    credit = [[[c, math.sqrt(1 - c * c)]] * 2 for c in cosines]
    ends = Distribution().measure(made_of(credit, [[[5.0, 0.0]] * 2] * 4))
    assert [ends[f"gamma_{name}"] for name in ("first", "interior", "last")] == pytest.approx(cosines)


# Layer 0 dominating the mean.


def test_a_good_block_0_does_not_hide_deep_blocks_that_learn_nothing() -> None:
    """The study's DFA: Γ = (.42, 0, 0, 0). Its mean, .105, reads as aligned; the deep blocks are at chance."""
    row = Row(
        epoch=9, test_acc=0.5, gamma=[0.42, 0.0, 0.0, 0.0], gamma_chance=[0.01] * 4,
        gamma_null_std=[0.02] * 4, gamma_null_draws=[[0.02, -0.02] * 10] * 4, gamma_bp=[1.0] * 4,
    )  # fmt: skip
    case = Case(RunConfig(rule="dfa"), [row], 1000, 10)
    assert accuracy_and_gamma(case) == TRUSTWORTHY, "the pitfall would show here"
    assert deep("gamma")(row) == 0.0 and score(row, [1, 2, 3]) == 0.0
    found = Null().find(case)
    assert found.status == FIRED and found.value == 0.0
