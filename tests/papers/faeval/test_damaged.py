"""A run that cannot be exported gets a one-line remark, and the others are exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.export import export
from faudit.papers.faeval.import_ import import_file
from faudit.store.rows import to_line
from tests.support.fabricate import write

PLAN = PAPER.plan(epochs=2, seeds=(42,))


def remark_of(runs: Path, out: Path) -> str:
    table = Table(PLAN, runs)
    paths = export(table, out)
    assert [json.loads(path.read_text())["dfa_log"] for path in paths] == [None], "the other log is there"
    (remark,) = table.remarks
    assert "\n" not in remark
    return remark


def test_rows_of_another_depth_than_the_configurations_are_damage(tmp_path: Path) -> None:
    write(PLAN.config("resmlp bp", 42), tmp_path / "runs")
    run = write(PLAN.config("resmlp dfa", 42), tmp_path / "runs")
    shallow = [{name: v[:-1] if isinstance(v, list) else v for name, v in row.items()} for row in run.rows()]
    run.rows_file.write_text("".join(map(to_line, shallow)))
    told = f"left out: {run.rows_file} is damaged: hidden_norms: expected 5 numbers, one a tap, got 4. "
    assert remark_of(tmp_path / "runs", tmp_path / "out").startswith(told)


def test_a_gradient_that_is_not_known_stays_so(tmp_path: Path) -> None:
    run = write(PLAN.config("resmlp dfa", 42), tmp_path / "runs")
    rows = [row | {"grad_norms": [None, 1.0, 2.0, 3.0, 1024.0], "eval_samples": 1024} for row in run.rows()]
    run.rows_file.write_text("".join(map(to_line, rows)))
    (path,) = export(Table(PLAN, tmp_path / "runs"), tmp_path / "out")
    gradients = json.loads(path.read_text())["dfa_log"][0]["bp_grad_norms_per_sample_med"]
    assert gradients == [None, 1 / 1024, 2 / 1024, 3 / 1024, 1.0]


@pytest.mark.parametrize(
    "spoilt", [None, [], {}, {"entries": {}, "sha256": "0", "head": {}}, {"entries": [], "sha256": [], "head": {}}]
)
def test_an_imported_run_that_lost_its_document_is_left_out(tmp_path: Path, spoilt: Any) -> None:
    for experiment in ("resmlp bp", "resmlp dfa"):
        write(PLAN.config(experiment, 42), tmp_path / "own")
    (path,) = export(Table(PLAN, tmp_path / "own"), tmp_path / "out")
    runs = {run.config().rule: run for run in import_file(path, tmp_path / "runs")}
    env = json.loads((runs["dfa"].path / "env.json").read_text())
    (runs["dfa"].path / "env.json").write_text(json.dumps({**env, "imported": spoilt}))
    remark = remark_of(tmp_path / "runs", tmp_path / "again")
    assert f"{runs['dfa'].path}/env.json is damaged: " in remark and "expected" in remark
    assert remark.count("\n") == 0
