"""Export followed by import, and import followed by export, change nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.export import export
from faudit.papers.faeval.import_ import import_file, import_files
from faudit.store.run import Run, runs_in
from tests.support.faeval import DIGITS, EXPERIMENTS, ORIGINALS, SEED, fabricate, original, put, read


def test_our_own_runs_go_out_come_back_and_go_out_the_same_to_the_byte(trained: Path, tmp_path: Path) -> None:
    first = export(Table(DIGITS, trained), tmp_path / "first")
    runs, refused = import_files(first, tmp_path / "runs")
    assert not refused and len(runs) == 3 and all(run.status == "done" for run in runs)
    second = export(Table(DIGITS, tmp_path / "runs"), tmp_path / "second")
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in first]
    assert [path.relative_to(tmp_path / "second") for path in second] == [
        path.relative_to(tmp_path / "first") for path in first
    ]


def test_an_imported_run_of_ours_has_our_config_units_and_numbers(trained: Path, tmp_path: Path) -> None:
    runs, _ = import_files(export(Table(DIGITS, trained), tmp_path / "out"), tmp_path / "runs")
    for run in runs:
        ours = Run(trained / run.name.removeprefix("imported-"))
        assert run.config() == ours.config()
        for before, after in zip(ours.rows(), run.rows(), strict=True):
            for name in ("hidden_norms", "grad_norms", "grad_norms_frobenius"):
                assert after[name] == pytest.approx(before[name], rel=1e-14, abs=0)
            assert {name: after[name] for name in ("epoch", "acc_eval", "loss_eval", "eval_samples")} == {
                name: before[name] for name in ("epoch", "acc_eval", "loss_eval", "eval_samples")
            }
            assert after.keys() == before.keys() - {"weight_cosine", "weight_angle"}, "the file does not have them"
        done, was = run.outcome() or {}, ours.outcome() or {}
        assert done.keys() == was.keys() - {"peak_bytes", "test_right"}, "the file does not have them"
        assert done["growth_max"] == was["growth_max"] and done["weights_sha256"] is None


def test_every_experiments_file_comes_back_as_the_run_it_was(tmp_path: Path) -> None:
    plan = PAPER.plan("cifar10", epochs=2, seeds=(7,))
    for experiment in EXPERIMENTS:
        fabricate(plan.config(experiment, 7), tmp_path / "runs")
    first = export(Table(plan, tmp_path / "runs"), tmp_path / "first")
    back, refused = import_files(first, tmp_path / "back")
    assert not refused
    assert sorted(run.name for run in back) == [f"imported-{run.name}" for run in runs_in(tmp_path / "runs")]
    second = export(Table(plan, tmp_path / "back"), tmp_path / "second")
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in first]


def test_the_papers_own_files_go_in_and_come_out_as_they_were(tmp_path: Path) -> None:
    paths = [put(document(), tmp_path / "old" / name) for name, document in ORIGINALS.items()]
    runs, refused = import_files(paths, tmp_path / "runs")
    assert not refused and len(runs) == len(ORIGINALS) + 1
    export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")
    there = {str(path.relative_to(tmp_path / "out/results")) for path in (tmp_path / "out").rglob("*.json")}
    assert there == set(ORIGINALS)
    for name, document in ORIGINALS.items():
        assert read(tmp_path / "out/results" / name) == document()


def test_the_papers_own_files_are_runs_of_its_experiments(tmp_path: Path) -> None:
    expected = {
        "snapshot_evolution_v2/snapshot_evolution_s42.json": ["resmlp dfa"],
        "snapshot_no_outln_v1/snapshot_noLN_s42.json": ["noln bp", "noln dfa"],
        "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s42.json": ["noln fa"],
        "snapshot_vit_v1/snapshot_vit_s42.json": ["vit dfa"],
        "snapshot_vit_v1/snapshot_fa_canonical_s42.json": ["vit fa"],
        "snapshot_synth_v1/snapshot_synth_a1.0_L4_s42.json": ["student dfa"],
        "snapshot_synth_v1/snapshot_fa_canonical_s42.json": ["student fa"],
        "dfa_residual_penalty/dfa_pen_lam0.001_s42.json": ["matched dfa λ=0.001"],
        "dfa_residual_penalty/dfa_pen_lam0.01_s42.json": ["matched dfa λ=0.01"],
    }
    for name, document in ORIGINALS.items():
        runs = import_file(put(document(), tmp_path / "old" / name), tmp_path / "runs")
        lasts = [run.rows()[-1]["epoch"] for run in runs]
        configs = [
            PAPER.plan().config(experiment, SEED).with_(epochs=max(1, last))
            for experiment, last in zip(expected[name], lasts, strict=True)
        ]
        assert [run.config() for run in runs] == configs
        assert [run.name for run in runs] == [f"imported-{config.run_id}" for config in configs]


def test_extra_keys_are_ignored_and_kept(tmp_path: Path) -> None:
    document = original()
    document["dfa_log"][1] |= {"wall_time": 3, "nested": {"a": [1, {"b": None}]}}
    document["zzz"] = {"notes": ["nan", "inf", "é"], "big": 10**30}
    document["config"]["args"] = ["--x"]
    path = put(document, tmp_path / "snapshot_evolution_s42.json")
    (run,) = import_file(path, tmp_path / "runs")
    assert "wall_time" not in run.rows()[1]
    (again,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path)
    assert read(again) == document and list(read(again)) == list(document)


def test_numbers_that_overflowed_are_words_in_rows_and_null_outside(tmp_path: Path) -> None:
    document = original(2)
    document["dfa_log"][2]["hidden_norms"][3:] = [math.inf, math.nan]
    document["dfa_log"][2]["note"] = -math.inf
    path = put(json.dumps(document).replace("2.1", "1e999"), tmp_path / "snapshot_evolution_s42.json")
    assert "NaN" in path.read_text() and "-Infinity" in path.read_text()
    (run,) = import_file(path, tmp_path / "runs")
    last = run.rows()[-1]
    assert last["hidden_norms"][3] == math.inf and math.isnan(last["hidden_norms"][4])
    assert last["loss_eval"] == math.inf and run.status == "failed"
    assert '"inf", "nan"' in run.rows_file.read_text()
    (again,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path)
    entry = read(again)["dfa_log"][2]
    assert entry["hidden_norms"][3:] == [None, None] and entry["loss_eval"] is None and entry["note"] is None


@pytest.mark.parametrize("ours", ["bp", "dfa"])
def test_a_file_of_an_imported_log_and_one_of_our_own_has_both(tmp_path: Path, ours: str) -> None:
    plan = PAPER.plan("cifar10", epochs=3, seeds=(SEED,))
    theirs = {"bp": "dfa_log", "dfa": "bp_log"}[ours]
    document = {**original(), "dfa_log": None, theirs: original()["dfa_log"]}
    import_file(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    run = fabricate(plan.config(f"resmlp {ours}", SEED), tmp_path / "runs")
    (path,) = export(Table(plan, tmp_path / "runs"), tmp_path / "out")
    mixed = read(path)
    assert mixed[theirs] == document[theirs]
    assert [found["loss_eval"] for found in mixed[f"{ours}_log"]] == [row["loss_eval"] for row in run.rows()]
    assert set(mixed["config"]["faudit"]) == {"bp_log", "dfa_log"}


def test_logs_of_two_imported_files_make_one_that_is_neither(tmp_path: Path) -> None:
    one = {**original(), "note": 1, "bp_log": original()["dfa_log"], "dfa_log": None}
    two = {**original(), "note": 2}
    import_file(put(one, tmp_path / "evolution_one.json"), tmp_path / "runs")
    import_file(put(two, tmp_path / "evolution_two.json"), tmp_path / "runs")
    (path,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")
    document = read(path)
    assert document["bp_log"] == document["dfa_log"] == two["dfa_log"]
    assert "note" not in document and set(document["config"]["faudit"]) == {"bp_log", "dfa_log"}
