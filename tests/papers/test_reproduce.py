"""``faudit reproduce``: the missing runs, the figures, the claims; a second call does nothing and says so."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.figures import FIGURES, table
from faudit.figures.figure import FORMATS
from faudit.figures.style import Style
from faudit.papers import reproduce
from faudit.papers.faeval import PAPER
from faudit.papers.reproduce import MARKS
from faudit.registry import Registry
from faudit.store.run import runs_in
from tests.support import fabricate, papers

SECOND = replace(PAPER, name="second", figures=("snapshot-vit",), claims=PAPER.claims[:1])


def words(name: str, tmp_path: Path, *more: str) -> list[str]:
    flags = ["--data", "digits", "--epochs", "1", "--seeds", "42"]
    return ["reproduce", name, *flags, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), *more]


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without their pictures, for tests of when they are made: drawing takes seconds, and has its own tests."""
    monkeypatch.setattr(Style, "drawn", lambda *_: None)
    monkeypatch.setattr(Style, "rendered", lambda *_: b"a picture")


@pytest.mark.slow
def test_one_figure_from_nothing_and_then_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("snapshot-vit", tmp_path)) == 0
    said = capsys.readouterr()
    assert "2 runs made" in said.err
    assert [Path(text).name for text in said.out.split()] == [f"snapshot-vit.{form}" for form in (*FORMATS, "json")]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert main(words("snapshot-vit", tmp_path)) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("unpainted")
def test_everything_is_drawn_and_judged_and_a_changed_store_is_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    fabricate.all_runs(plan, tmp_path / "runs")
    assert main(words("faeval", tmp_path)) == 0
    said = capsys.readouterr()
    assert "0 runs made; claims: 17 rehearsed, which says nothing about them" in said.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    wanted = {f"{figure}.{form}" for figure in PAPER.figures for form in (*FORMATS, "json")}
    assert names == wanted | {"claims.md", "claims.json", "claims.tex", "made-from.json"}
    claims = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert claims["rehearsal"] is True and len(claims["claims"]) == 17
    assert main(words("faeval", tmp_path)) == 0 and "nothing to do" in capsys.readouterr().out
    (tmp_path / "out" / "claims.md").unlink()
    untouched = (tmp_path / "out" / "crossarch.pdf").stat().st_mtime_ns
    assert main(words("faeval", tmp_path)) == 0 and (tmp_path / "out" / "claims.md").exists()
    assert (tmp_path / "out" / "crossarch.pdf").stat().st_mtime_ns == untouched


@pytest.mark.usefixtures("unpainted")
def test_a_result_of_another_plan_in_the_same_folder_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabricate.all_runs(
        PAPER.plan("digits", epochs=1, seeds=(42,)), tmp_path / "runs", FIGURES["snapshot-vit"].experiments
    )
    fabricate.all_runs(
        PAPER.plan("digits", epochs=2, seeds=(42,)), tmp_path / "runs", FIGURES["snapshot-vit"].experiments
    )
    for epochs in ("1", "2", "1"):
        assert main(words("snapshot-vit", tmp_path, "--epochs", epochs)) == 0
        assert "nothing to do" not in capsys.readouterr().out
        numbers = json.loads((tmp_path / "out" / "snapshot-vit.json").read_text())
        assert numbers["plan"]["epochs"] == int(epochs)


@pytest.mark.usefixtures("unpainted")
def test_one_damaged_run_is_named_and_left_out_of_its_figure_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    fabricate.all_runs(plan, tmp_path / "runs")
    (tmp_path / "runs" / plan.config("vit bp", 42).run_id / "rows.jsonl").write_text("nonsense\n")
    assert main(words("faeval", tmp_path)) == 2
    said = capsys.readouterr().err
    assert "rows.jsonl, line 1 is damaged" in said and "Traceback" not in said
    assert "snapshot-vit: missing: vit bp, seed 42" in said and "snapshot-resmlp: missing" not in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"snapshot-resmlp.pdf", "penalty-rescue.pdf", "claims.md", "snapshot-vit.pdf"} <= names


def test_a_damaged_run_is_named_beside_the_claims_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    fabricate.all_runs(plan, tmp_path / "runs")
    (tmp_path / "runs" / plan.config("vit bp", 42).run_id / "rows.jsonl").write_text("nonsense\n")
    assert main(words("claims", tmp_path, "--jobs", "0")) == 0
    said = capsys.readouterr().err
    assert said.startswith("faudit: note: claims: left out: ") and "rows.jsonl, line 1 is damaged" in said


def test_what_cannot_work_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("snapshot-vit", tmp_path, "--venue", "nips")) == 2
    (tmp_path / "file").write_text("")
    assert main([*words("snapshot-vit", tmp_path), "--out", str(tmp_path / "file")]) == 2
    assert "cannot use" in capsys.readouterr().err and not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("unpainted")
def test_without_jobs_it_draws_what_is_there_and_names_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    fabricate.all_runs(plan, tmp_path / "runs", ["resmlp bp", "resmlp dfa", "student dfa"])
    assert main(words("faeval", tmp_path, "--jobs", "0")) == 0
    said = capsys.readouterr()
    assert "missing: noln bp, seed 42" in said.err and "snapshot-vit: none of its runs" in said.err
    assert (tmp_path / "out" / "snapshot-resmlp.pdf").exists() and not (tmp_path / "out" / "snapshot-vit.pdf").exists()
    assert len(runs_in(tmp_path / "runs")) == 3


@pytest.mark.usefixtures("unpainted")
def test_a_store_without_the_papers_runs_costs_nobody_what_was_drawn_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabricate.all_runs(PAPER.plan("digits", epochs=1, seeds=(42,)), tmp_path / "runs")
    assert main(words("faeval", tmp_path)) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    fabricate.write(RunConfig(), tmp_path / "others")
    for flags, expected in [
        (["--runs", str(tmp_path / "rums")], f"no run store at {tmp_path / 'rums'}"),
        (["--runs", "x" * 300], "File name too long"),
        (["--runs", str(tmp_path / "others")], f"faeval: none of its runs is in {tmp_path / 'others'}"),
        (["--seeds", "43"], "faeval: none of its runs is in"),
    ]:
        assert main(words("faeval", tmp_path, "--jobs", "0", *flags)) == 2
        said = capsys.readouterr()
        assert said.err.startswith("faudit: ") and expected in said.err and "17 not run" not in said.err
        assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert not (tmp_path / "rums").exists()


@pytest.mark.usefixtures("unpainted")
def test_a_figure_that_cannot_be_drawn_goes_only_if_we_drew_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of another plan must not pass for this one's; a file of somebody else's is none of our business."""
    fabricate.all_runs(
        PAPER.plan("digits", epochs=1, seeds=(42,)), tmp_path / "runs", FIGURES["snapshot-vit"].experiments
    )
    fabricate.all_runs(PAPER.plan("digits", epochs=2, seeds=(42,)), tmp_path / "runs", ["noln fa"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "penalty-rescue.pdf").write_text("not ours")
    assert main(words("faeval", tmp_path, "--jobs", "0")) == 0
    drawn = tmp_path / "out" / "snapshot-vit.pdf"
    assert drawn.exists() and main(words("faeval", tmp_path, "--jobs", "0", "--epochs", "2")) == 0
    assert not drawn.exists() and (tmp_path / "out" / "crossarch.pdf").exists()
    assert (tmp_path / "out" / "penalty-rescue.pdf").read_text() == "not ours"
    assert "penalty-rescue: none of its runs" in capsys.readouterr().err


@pytest.mark.usefixtures("unpainted")
def test_rows_that_changed_in_place_are_drawn_again_and_the_store_is_looked_through_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Mock(side_effect=runs_in)
    monkeypatch.setattr(table, "runs_in", look)
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    fabricate.all_runs(plan, tmp_path / "runs")
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "config.json").write_text("{")
    assert main(words("faeval", tmp_path)) == 0 and look.call_count == 1
    numbers = {name: json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in PAPER.figures}
    assert all(sum("odd" in remark for remark in entry["remarks"]) == 1 for entry in numbers.values())
    rows = tmp_path / "runs" / plan.config("vit bp", 42).run_id / "rows.jsonl"
    text = rows.read_text()
    rows.write_text(re.sub(r'("hidden_norms": \[[^\]]*, )\d', r"\g<1>9", text))  # a digit of the last tap
    assert len(rows.read_text()) == len(text) and rows.read_text() != text
    capsys.readouterr()
    assert main(words("faeval", tmp_path)) == 0 and "nothing to do" not in capsys.readouterr().out
    again = {name: json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in PAPER.figures}
    assert again["snapshot-vit"] != numbers["snapshot-vit"] and again["penalty-rescue"] == numbers["penalty-rescue"]


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_data_that_is_not_there_is_told_once_a_run_and_the_rest_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--epochs", "1", "--seeds", "42", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    fabricate.all_runs(PAPER.plan(epochs=1, seeds=(42,)), tmp_path / "runs", ["vit bp"])
    assert main(["reproduce", "snapshot-vit", *flags, "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "was not made" in said and "Traceback" not in said and "missing: vit dfa, seed 42" in said
    assert main(["reproduce", "snapshot-vit", *flags, "--data-dir", str(tmp_path)]) == 2
    assert "nothing to do" not in capsys.readouterr().out


@pytest.mark.usefixtures("unpainted")
def test_results_go_to_a_folder_named_after_the_paper_and_papers_without_runs_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabricate.all_runs(PAPER.plan("digits", epochs=1, seeds=(42,)), tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    flags = ["--data", "digits", "--epochs", "1", "--seeds", "42", "--jobs", "0"]
    for name, results in [("claims", {"claims.md"}), ("all", {"claims.md", "crossarch.json"})]:
        assert main(["reproduce", name, *flags]) == 0
        assert results <= {path.name for path in (tmp_path / "faeval").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "faeval"}


def test_a_paper_without_figures_gets_one_made_from_its_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduce, "PAPERS", Registry("paper", {"made-up": "tests.support.papers:PAPER"}))
    flags = ["--runs", str(tmp_path / "runs"), "--jobs", "0", "--out", str(tmp_path / "out")]
    papers.everything(tmp_path / "runs")
    assert main(["reproduce", "made-up", *flags]) == 0
    assert "claims: 4 reproduced" in capsys.readouterr().err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        *(f"figure.{form}" for form in (*FORMATS, "json")),
        "claims.md",
        "claims.json",
        "claims.tex",
        MARKS,
    }
    numbers = json.loads((tmp_path / "out" / "figure.json").read_text())
    assert numbers["figure"] == "made-up" and [one["title"] for one in numbers["panels"]] == ["accuracy", "error"]
    assert main(["reproduce", "made-up", *flags]) == 0 and "nothing to do" in capsys.readouterr().out
    next((tmp_path / "runs").glob("*-dfa-*-s2-*/done.json")).unlink()
    assert main(["reproduce", "made-up", *flags]) == 0
    assert "claims: 2 reproduced, 2 partial" in capsys.readouterr().err


def test_a_dry_run_lists_every_run_once_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("faeval", "snapshot-vit", "all"):
        plans = {paper: paper.plan("digits", epochs=1, seeds=(42,)) for paper in reproduce.papers_of(name)}
        wanted = {
            config.run_id for paper, plan in plans.items() for config in reproduce.configs_of(name, paper, plan=plan)
        }
        assert main(["reproduce", name, "--data", "digits", "--epochs", "1", "--seeds", "42", "--dry-run"]) == 0
        out = capsys.readouterr().out
        assert f"{len(wanted)} runs: 0 done, 0 failed, {len(wanted)} to make" in out
        assert sorted(wanted) == sorted(line.split()[0] for line in out.splitlines()[1 : len(wanted) + 1])
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unpainted")
def test_of_several_papers_each_gets_a_folder_in_the_one_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = {"faeval": "faudit.papers.faeval:PAPER", "second": "tests.papers.test_reproduce:SECOND"}
    monkeypatch.setattr(reproduce, "PAPERS", Registry("paper", targets))
    fabricate.all_runs(PAPER.plan("digits", epochs=1, seeds=(42,)), tmp_path / "runs")
    assert main(words("all", tmp_path, "--jobs", "0")) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"faeval", "second"}
    second = {path.name for path in (tmp_path / "out" / "second").iterdir()}
    assert second == {
        *(f"snapshot-vit.{form}" for form in (*FORMATS, "json")),
        "claims.md",
        "claims.json",
        "claims.tex",
        MARKS,
    }
    assert len(json.loads((tmp_path / "out" / "second" / "claims.json").read_text())["claims"]) == 1


@pytest.mark.usefixtures("unpainted")
def test_of_several_papers_one_without_runs_is_remarked_and_none_with_runs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = {"faeval": "faudit.papers.faeval:PAPER", "made-up": "tests.support.papers:PAPER"}
    monkeypatch.setattr(reproduce, "PAPERS", Registry("paper", targets))
    flags = ["--runs", str(tmp_path / "runs"), "--jobs", "0", "--out", str(tmp_path / "out")]
    papers.everything(tmp_path / "runs")
    assert main(["reproduce", "all", *flags]) == 0
    assert "faeval: none of its runs is in" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"made-up"}
    fabricate.write(RunConfig(), tmp_path / "others")
    assert main(["reproduce", "all", *flags, "--runs", str(tmp_path / "others")]) == 2
    said = capsys.readouterr().err
    assert "faeval: none of its runs is in" in said and "made-up: none of its runs is in" in said


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "snapshot-resmpl"]) == 2
    assert "did you mean 'snapshot-resmlp'?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_rehearsal_of_everything_ends_with_figures_claims_and_every_file_of_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("faeval", tmp_path)) == 0
    plan = PAPER.plan("digits", epochs=1, seeds=(42,))
    made = {
        plan.config(experiment).run_id for experiment in PAPER.recipe().experiments
    }  # with one length for all, some experiments share a run
    assert f"{len(made)} runs made" in capsys.readouterr().err
    assert {run.name for run in runs_in(tmp_path / "runs")} == made
    assert main(["export", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "x"), "--seeds", "42"]) == 0
    files = {str(path.relative_to(tmp_path / "x")) for path in (tmp_path / "x").rglob("*.json")}
    assert files == {
        "results/snapshot_evolution_v2/snapshot_evolution_s42.json",
        "results/snapshot_no_outln_v1/snapshot_noLN_s42.json",
        "results/snapshot_no_outln_v1/snapshot_fa_canonical_noln_s42.json",
        "results/snapshot_vit_v1/snapshot_vit_s42.json",
        "results/snapshot_vit_v1/snapshot_fa_canonical_s42.json",
        "results/snapshot_synth_v1/snapshot_synth_a1.0_L4_s42.json",
        "results/snapshot_synth_v1/snapshot_fa_canonical_s42.json",
        *(f"results/dfa_residual_penalty/dfa_pen_lam{value}_s42.json" for value in ("0.0001", "0.001", "0.01", "0.1")),
    }
