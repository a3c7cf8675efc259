"""The runs of Lillicrap et al.: the linear one equals the formulas in numpy, and vectors go through every part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from faudit.audit.audit import audit
from faudit.audit.protocol import DEFAULT, protocol
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.data.dataset import Dataset
from faudit.data.regression import teacher_linear
from faudit.errors import ConfigError
from faudit.experiment import prepare
from faudit.papers import PAPERS
from faudit.papers.claim import judged
from faudit.rules import RULES
from faudit.store.run import Run
from faudit.train import fit, one_epoch, stream

PLAN = PAPERS["lillicrap"].plan()
Matrix = NDArray[np.float64]


def short(data: Dataset, train: int = 40, test: int = 24) -> Dataset:
    """The first samples of a dataset."""
    return Dataset(
        data.name, data.train_x[:train], data.train_y[:train], data.test_x[:test], data.test_y[:test], data.classes,
        data.mean, data.std, scale=data.scale,
    )  # fmt: skip


def angle(a: Matrix, b: Matrix) -> float:
    return float(np.degrees(np.arccos((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))))


def test_three_hundred_online_steps_are_the_formulas_of_the_paper_and_turn_w_towards_b(tmp_path: Path) -> None:
    """ΔW = η e hᵀ, ΔW_0 = η B e xᵀ, e = y − W W_0 x, in float64 and in the order of the data."""
    config = PLAN.config("linear FA").with_(epochs=1, no_shuffle=True, dtype="float64", eval_size=16)
    data = teacher_linear()
    start = prepare(config, data)
    w_0, w = (start.state.params[f"{name}.weight"].detach().numpy().copy() for name in ("blocks.0", "readout"))
    b = start.state.rule_state["B.readout.weight"].numpy()  # stored in the shape of W
    assert np.abs(w_0).max() <= 0.01 and np.abs(w).max() <= 0.01 and 0.45 < np.abs(b).max() <= 0.5
    chosen = torch.arange(300) * len(data.train_x) // 300
    first = angle(w, b)
    for x, y in zip(data.train_x[chosen].double().flatten(1).numpy(), data.train_y[chosen].numpy(), strict=True):
        h = w_0 @ x
        e = y - w @ h
        w_0, w = w_0 + 1e-3 * np.outer(b.T @ e, x), w + 1e-3 * np.outer(e, h)
    before, after = fit(config, tmp_path).rows()
    assert (before["weight_angle"], after["weight_angle"]) == (
        [pytest.approx(first, abs=1e-6)], [pytest.approx(angle(w, b), abs=1e-6)],
    )  # fmt: skip
    assert first > 75 and angle(w, b) < 40
    targets = data.test_y.double().numpy()
    outputs = data.test_x.flatten(1).double().numpy() @ w_0.T @ w.T
    nse = ((outputs - targets) ** 2).sum() / ((targets - targets.mean(0)) ** 2).sum()
    assert after["test_nse"] == pytest.approx(nse, rel=1e-9)


def test_a_row_of_vectors_has_no_accuracy_and_the_audit_says_what_it_cannot_ask(tmp_path: Path) -> None:
    config = PLAN.config("FA, 4 layers").with_(epochs=1, probe_epochs=(1,), train_size=300, eval_size=64)
    run = fit(config, tmp_path)
    for row in run.rows():
        assert row["acc_eval"] is row["test_acc"] is None and row["classes"] == 0 and row["loss_eval"] > 0
        assert 0 < row["test_nse"] < 1.5 and len(row["weight_angle"]) == 2
    assert run.rows()[-1]["linear_acc"] == [None, None, None] and None not in run.rows()[-1]["rho_bp"]
    fit(config.with_(rule="frozen-fa-weights", probe_epochs=()), tmp_path)
    verdict = audit(run, protocol(DEFAULT), data_dir=None).verdict
    found = {one.check: (one.status, one.reason) for one in verdict.findings}
    assert found["chance"] == ("not applicable", "its outputs are not classes") and found["rank"][0] == "not applicable"
    status, reason = found["paired"]
    assert status == "not measured" and "its outputs are not classes" in reason
    assert verdict.verdict != "trustworthy" and found["reference"][0] == "passed"


@pytest.mark.parametrize("rule", RULES.declaring)
def test_every_rule_learns_vectors_or_says_why_not(rule: str) -> None:
    config = RunConfig(
        net="mlp", rule=rule, data="teacher-linear", sizes=(6, 6), activation="relu", criterion="mse", batch_size=8,
        optimizer="sgd", lr=1e-4,
    )  # fmt: skip
    data = short(teacher_linear())
    if RULES[rule].no_vectors:
        with pytest.raises(ConfigError, match=f"rule {rule}: expected classes, because "):
            prepare(config, data)
        return
    experiment = prepare(config, data)
    if experiment.rule.refusal(experiment.net) is None:
        before = experiment.state.params["readout.weight"].detach().clone()
        assert np.isfinite(one_epoch(experiment, 1))
        assert not torch.equal(before, experiment.state.params["readout.weight"])


def test_a_resumed_run_on_vectors_has_the_same_rows(tmp_path: Path) -> None:
    config = PLAN.config("FA, 3 layers").with_(epochs=2, eval_size=16, batch_size=8)
    data = short(teacher_linear())
    whole, halved = (Run(tmp_path / name / config.run_id) for name in ("whole", "halved"))
    for _ in stream(config, whole, dataset=data):
        pass
    rows = stream(config, halved, dataset=data)
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    for _ in stream(config, halved, dataset=data):
        pass
    told = [[(row["loss_eval"], row["test_nse"], row["weight_angle"]) for row in run.rows()] for run in (whole, halved)]
    assert told[0] == told[1] and len(told[0]) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--net", "resmlp"], "the loss of net resmlp: expected classes, got data teacher-tanh"),
        (["--net", "mlp"], "the loss of net mlp: expected classes, got data teacher-tanh"),
        (["--net", "mlp", "--criterion", "mse", "--rule", "drtp"], "rule drtp: expected classes, because its signal"),
        (["--net", "mlp", "--criterion", "mse", "--random-targets"], "random-targets: expected classes, got data"),
    ],
)
def test_what_needs_classes_is_refused_in_one_line(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words, "--data", "teacher-tanh", "--epochs", "1", "--runs", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"faudit: {problem}") and error.count("\n") == 1 and not list(tmp_path.iterdir())


def test_the_claims_read_entries_that_the_runs_have(tmp_path: Path) -> None:
    """A rehearsal of the linear runs: partial, never reproduced, and the numbers are there."""
    from faudit.figures.table import Table

    plan = PAPERS["lillicrap"].plan(epochs=1, seeds=(42,))
    fit(plan.config("linear FA"), tmp_path)
    entries = judged(PAPERS["lillicrap"].claims, Table(plan, tmp_path))
    assert [entry["verdict"] for entry in entries] == ["partial", "partial", "partial", "not run", "not run"]
    start, step_300 = (entries[place]["parts"][0]["ours"] for place in (0, 1))
    assert 80 < start < 100 and step_300 < 38
