"""A store that holds imported runs alone: no weights, no test accuracy, no Γ. Every command copes with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.papers import PAPERS
from faudit.store.run import Run, runs_in
from tests.support import fabricate
from tests.support.stores import look

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    plan = PAPERS["faeval"].plan("cifar10", epochs=3, seeds=(42, 123))
    fabricate.all_runs(plan, folder / "made", ["resmlp bp", "resmlp dfa", "matched dfa λ=0.01"])
    words = ["--runs", str(folder / "made"), "--epochs", "3", "--seeds", "42", "123"]
    assert main(["export", *words, "--out", str(folder)]) == 0
    files = map(str, (folder / "results").rglob("*.json"))
    assert main(["import", *files, "--runs", str(folder / "runs")]) == 0
    assert len(runs_in(folder / "runs")) == 6
    return folder / "runs"


def said(capsys: Said, code: int, *words: str) -> tuple[str, str]:
    capsys.readouterr()
    assert main([*words]) == code
    found = capsys.readouterr()
    return found.out, found.err


def test_runs_are_listed_under_names_that_show_accepts(store: Path, capsys: Said) -> None:
    lines = said(capsys, 0, "show", "--runs", str(store))[0].splitlines()[1:]
    names = [line.split()[0] for line in lines]
    assert sorted(names) == sorted(run.name for run in runs_in(store))
    for name in names:
        text = said(capsys, 0, "show", name, "--runs", str(store))[0]
        assert text.startswith(name) and len(text.splitlines()) >= 5
    grouped = said(capsys, 0, "show", "--group", "--runs", str(store))[0]
    assert len(grouped.splitlines()) == 4 and "penalty=0.01" in grouped


def test_an_audit_needs_no_data_and_says_once_that_there_are_no_weights(store: Path, capsys: Said) -> None:
    out, err = said(capsys, 3, "audit", "--all", "--runs", str(store), "--json")
    assert err == "faudit: note: an imported run has no weights: what only the weights can tell is not measured\n"
    assert {one["verdict"] for one in json.loads(out)["runs"]} <= {"inconclusive", "needs walk-back"}
    name = next(run.name for run in runs_in(store) if run.config().rule == "dfa")
    page = said(capsys, 3, "audit", name, "--runs", str(store), "--markdown", "-")[0]
    assert "weights: SHA-256 not known" in page and "test set: 10000 samples, 10 classes" in page


def test_the_report_says_that_the_weights_are_missing(store: Path, tmp_path: Path, capsys: Said) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    assert said(capsys, 0, "report", "--runs", str(store), "--out", str(tmp_path / "r.html"))[1] == ""
    found = look(store)
    for run in found.runs.values():
        assert run["imported"] and run["verdict"] == "inconclusive"
        assert run["sentence"].endswith("the run was imported without its weights."), "no audit could measure more"
        assert run["environment"]["imported"].keys() == {"file", "log", "sha256"}, "its entries are the rows"
    assert all(method["name"].count(", imported") == 1 for method in found.document["methods"])


def test_plots_and_comparisons_use_what_there_is(store: Path, tmp_path: Path, capsys: Said) -> None:
    words = ["--runs", str(store)]
    assert said(capsys, 0, "plot", "hidden_norms", "acc_eval", "--out", str(tmp_path / "p.svg"), *words)[1] == ""
    _, err = said(capsys, 2, "plot", "test_acc", "--out", str(tmp_path / "q.svg"), *words)
    assert err.count("\n") == 1 and "test_acc" in err
    groups = ("rule=bp", "rule=dfa,penalty=0")
    _, err = said(capsys, 2, "compare", *groups, *words)
    assert err.count("\n") == 1 and re.search(r"got none\. Compare another entry; the rows have .*acc_eval", err)
    text = said(capsys, 0, "compare", *groups, "--entry", "acc_eval", *words)[0]
    assert "acc_eval" in text and " 2 " in text.splitlines()[1]


@pytest.mark.usefixtures("forked_workers")
def test_a_control_of_an_imported_run_is_told_to_need_its_data(store: Path, capsys: Said) -> None:
    name = next(run.name for run in runs_in(store) if run.config().rule == "dfa")
    _, err = said(capsys, 3, "audit", name, "--with-controls", "--jobs", "1", "--runs", str(store))
    assert "cifar10 does not ship with faudit" in err
    assert Run(store / name).status == "done" and len(runs_in(store)) == 6
