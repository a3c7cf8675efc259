"""The paper's files come in as runs that are marked imported, in our units."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from rich.table import Table as Printed

from faudit.cli.tables import run_table
from faudit.errors import StoreError
from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.export import export
from faudit.papers.faeval.import_ import import_file, import_files
from faudit.store.run import runs_in
from faudit.store.summary import overview
from tests.support.faeval import ORIGINALS, L, entry, original, penalty_entry, put, read


def test_imported_rows_are_in_our_units_and_what_the_file_lacks_is_null(tmp_path: Path) -> None:
    (run,) = import_file(put(original(), tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    first = run.rows()[0]
    assert first["hidden_norms"] == [5.5, 5.6, 5.7, 5.8, 6.0]
    assert first["grad_norms"] == pytest.approx([0.1024, 0.2048, 0.3072, 0.4096, 0.512], rel=1e-14)
    assert first["grad_norms_frobenius"][:2] == pytest.approx([10.24, 20.48], rel=1e-14)
    assert first["gamma"] == first["gamma_undefined"] == [None] * L
    assert (first["acc_eval"], first["loss_eval"], first["test_acc"], first["train_loss"]) == (0.25, 2.1, None, None)
    path = put({"log": [penalty_entry(0), penalty_entry(1)]}, tmp_path / "dfa_pen_lam0.05_s3.json")
    (run,) = import_file(path, tmp_path / "runs")
    assert (run.config().penalty, run.config().seed) == (0.05, 3)
    last = run.rows()[-1]
    assert last["hidden_norms"] == [None] * 4 + [8.5]
    assert last["grad_norms"] == [None, None, pytest.approx(0.0256, rel=1e-14), None, None]
    assert last["grad_norms_frobenius"] == [None] * 5 and last["loss_eval"] is None
    origin = run.environment()["imported"]
    assert (origin["file"], origin["log"], origin["head"]) == (path.name, "log", {"log": None})
    assert origin["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert origin["entries"] == [penalty_entry(0), penalty_entry(1)]


def test_an_imported_run_can_be_shown(tmp_path: Path) -> None:
    paths = [put(document(), tmp_path / "old" / name) for name, document in ORIGINALS.items()]
    for run in import_files(paths, tmp_path / "runs")[0]:
        said = overview(run)
        assert said["hidden_norm"] is not None and said["test_acc"] is None
        table = run_table(run, width=80)
        assert isinstance(table, Printed) and table.row_count == len(run.rows())


def test_the_seed_is_the_configs_or_else_the_names(tmp_path: Path) -> None:
    document = original()
    document["config"]["seed"] = 9
    (run,) = import_file(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    assert run.config().seed == 9
    document["config"]["seed"] = None
    (run,) = import_file(put(document, tmp_path / "snapshot_evolution_s43.json"), tmp_path / "runs")
    assert run.config().seed == 43


def test_importing_a_file_again_changes_nothing(tmp_path: Path) -> None:
    path = put({**original(), "bp_log": [entry(0), entry(1)]}, tmp_path / "snapshot_evolution_s42.json")

    def state() -> dict[str, tuple[int, bytes]]:
        files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}

    runs = import_file(path, tmp_path / "runs")
    before = state()
    assert len(runs) == 2 and import_file(path, tmp_path / "runs") == runs
    assert import_file(put(path.read_text(), tmp_path / "evolution_copy_s42.json"), tmp_path / "runs") == runs
    assert state() == before


def test_another_file_for_the_same_run_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    (run,) = import_file(put(original(), tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    before = run.rows()
    other = original()
    other["dfa_log"][0]["acc_eval"] = 0.75
    other["bp_log"] = [entry(0), entry(1)]
    with pytest.raises(StoreError, match=r"holds the import of another file.*Delete that directory") as caught:
        import_file(put(other, tmp_path / "evolution_other_s42.json"), tmp_path / "runs")
    assert "snapshot_evolution_s42.json" in str(caught.value) and "evolution_other_s42.json" in str(caught.value)
    assert run.rows() == before and runs_in(tmp_path / "runs") == [run]  # nor was the log that would have fitted


@pytest.mark.parametrize("dies_at", ["env.json", "config.json", "rows.jsonl", "done.json"])
def test_an_import_killed_anywhere_does_not_count_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if target.name == dies_at:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        import_file(path, tmp_path / "runs")
    assert all(run.status == "stopped" for run in runs_in(tmp_path / "runs"))
    assert export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out") == []
    (run,) = import_file(path, tmp_path / "runs")
    assert run.status == "done" and len(run.rows()) == 4
    assert read(export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")[0]) == original()
