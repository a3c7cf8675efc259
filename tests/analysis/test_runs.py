"""The collection of a store's runs: choose, index, tabulate, audit, and how things look in a notebook."""

from __future__ import annotations

import html
import math
import subprocess
import sys
from pathlib import Path

import pytest

import faudit
from faudit import NETS, RULES, Run, RunConfig, Runs, runs
from faudit.analysis.runs import SHOWN
from faudit.errors import ConfigError, StoreError
from faudit.train import fit
from tests.support.fabricate import write
from tests.support.runs import TINY

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("collection") / "runs"
    for rule in ("bp", "dfa"):
        for seed in (1, 2):
            write(RunConfig(rule=rule, epochs=3, seed=seed), path)
    write(RunConfig(rule="dfa", epochs=5, seed=1), path, until=2)
    return path


def test_a_collection_is_a_sequence_of_runs(store: Path) -> None:
    found = runs(str(store))
    assert isinstance(found, Runs) and len(found) == 5 == len(list(found)) and found.problems == ()
    assert all(isinstance(run, Run) for run in found) and found[0].config().rule == "bp"
    assert found[-1].name == found.names[-1] and [run.name for run in found[:2]] == found.names[:2]
    assert found[0] in found and Run(found[0].path) in found and Run(store / "other") not in found
    assert found["resmlp-bp-digits-s2"].config().seed == 2 and found[found.names[3]].name == found.names[3]
    assert found[0].rows() == Run(found[0].path).rows()
    with pytest.raises(StoreError, match="'resmlp-dfa' is not one run: 3 runs match"):
        found["resmlp-dfa"]
    with pytest.raises(StoreError, match="unknown run 'vit'"):
        found["vit"]
    with pytest.raises(IndexError):
        found[5]


def test_where_takes_settings_and_the_words_of_the_shell(store: Path) -> None:
    found = runs(store)
    assert len(found.where(rule="dfa")) == 3 and len(found.where(rule="dfa", epochs=3)) == 2
    assert len(found.where("epochs>3")) == 1 and len(found.where("epochs!=3", rule=["bp", "dfa"])) == 1
    assert len(found.where(status="stopped")) == 1 and len(found.where("resmlp-bp*")) == 2 and not found.where(seed=9)
    assert found.sort("seed", largest_first=True)[0].config().seed == 2
    assert list(found.varying) == ["rule", "epochs", "seed"]
    with pytest.raises(ConfigError, match="did you mean 'batch-size'"):
        found.where(batch_siz=32)


def test_pandas_and_polars_hold_every_row_with_its_settings(store: Path) -> None:
    found = runs(store)
    frame, other = found.to_pandas(), found.to_polars()
    assert frame.shape == other.shape and len(frame) == sum(len(run.rows()) for run in found) == 19
    assert list(frame.columns) == other.columns and {"run", "rule", "batch-size", "gamma[3]", "test_acc"} <= set(
        frame.columns
    )
    for run in found:
        lines = frame[frame["run"] == run.name]
        for row, (_, line) in zip(run.rows(), lines.iterrows(), strict=True):
            assert line["epoch"] == row["epoch"] and line["gamma[1]"] == row["gamma"][1]
            assert line["rule"] == run.config().rule
            assert math.isnan(line["test_acc"]) if row["test_acc"] is None else line["test_acc"] == row["test_acc"]
    assert other.filter(other["run"] == found.names[0])["acc_eval"].to_list() == [
        row["acc_eval"] for row in found[0].rows()
    ]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_one_line(package: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as caught:
        getattr(runs(store), f"to_{package}")()
    assert f"pip install 'faudit[{package}]'" in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_collection_and_a_missing_store(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    empty = runs(tmp_path / "runs")
    assert len(empty) == 0 and empty.to_pandas().empty and "0 runs" in repr(empty) and "0 runs" in empty._repr_html_()
    with pytest.raises(StoreError, match="no run store"):
        runs(tmp_path / "nothing")


def test_a_damaged_run_is_told_and_left_out(store: Path, tmp_path: Path) -> None:
    write(RunConfig(epochs=1), tmp_path)
    (tmp_path / EVIL.replace("/", "_")).mkdir()
    (tmp_path / EVIL.replace("/", "_") / "config.json").write_text("{")
    found = runs(tmp_path)
    assert len(found) == 1 and len(found.problems) == 1
    assert "<script>" not in found._repr_html_() and "&lt;script&gt;" in found._repr_html_()
    lost = Run(tmp_path / EVIL.replace("/", "_"))
    assert "damaged" in str(lost) and "<script>" not in lost._repr_html_()


def test_notebooks_see_tables_and_terminals_short_text(store: Path) -> None:
    found = runs(store)
    assert repr(found).startswith("5 runs in ") and "4 done, 1 stopped; they differ in rule" in repr(found)
    page = found._repr_html_()
    assert page.count("<tr>") == 6 and all(html.escape(name) in page for name in found.names)
    assert repr(found[0]).startswith("Run(") and len(repr(found[0])) < 300
    assert str(found[0]).startswith(f"{found[0].name}: done, epoch 3/3, test acc 0.")
    assert "stopped, epoch 2/5, test acc –" in str(found.where(status="stopped")[0])
    assert found[0]._repr_html_().count("<tr>") > 4 and str(Run(store / "new")) == "new: new"
    assert Run(store / "new")._repr_html_() == "<p>new: new</p>"


def test_a_large_collection_shows_its_first_runs(tmp_path: Path) -> None:
    for seed in range(SHOWN + 1):
        write(RunConfig(epochs=1, seed=seed), tmp_path)
    page = runs(tmp_path)._repr_html_()
    assert page.count("<tr>") == SHOWN + 1 and f"The first {SHOWN} are shown" in page


def test_registries_print_their_names() -> None:
    assert repr(NETS) == f"<net: {', '.join(NETS)}>" and "frozen-dfa" in repr(RULES) and " at 0x" not in repr(RULES)


def test_a_run_of_a_collection_is_audited_as_by_the_command(tmp_path: Path) -> None:
    fit(TINY, tmp_path)
    (run,) = runs(tmp_path)
    audited = run.audit()
    assert audited.verdict == faudit.audit_run(run.path).verdict == faudit.audit_run(Run(run.path)).verdict
    assert audited.verdict.protocol == "faudit-4" and run.audit(protocol="paper").verdict.protocol == "paper"
    assert str(audited).startswith(f"{run.name}: ") and repr(audited.verdict).startswith("Verdict('")
    assert str(audited.verdict).splitlines()[0] == f"{audited.verdict.verdict} (faudit-4)"
    assert run.load_model().weights().keys() == faudit.load_model(run.path).weights().keys()
    assert run.state().keys() == faudit.rule_state(run.path).keys()
    page = audited._repr_html_()
    assert run.name in page and page.count("<tr>") == 1 + len(audited.verdict.findings) + len(audited.verdict.labels)
    with pytest.raises(ConfigError, match="unknown protocol"):
        run.audit(protocol="papers")


def test_what_a_verdict_says_is_text_in_a_notebook(tmp_path: Path) -> None:
    from faudit.audit.checks.check import PASSED, Finding
    from faudit.audit.judge import decide

    finding = Finding(EVIL, PASSED, reason=EVIL)
    page = decide([finding], protocol=EVIL)._repr_html_()
    assert "<script>" not in page and page.count("&lt;script&gt;") >= 3


def test_fit_is_silent_and_shows_each_row_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(TINY, tmp_path / "silent")
    assert capsys.readouterr() == ("", "")
    run = fit(TINY, tmp_path / "loud", progress=True)
    said = capsys.readouterr()
    assert said.out == "" and [f"epoch {row['epoch']}/2" in said.err for row in run.rows()] == [True] * 3


def test_a_collection_needs_no_torch(store: Path) -> None:
    code = (
        f"import sys, faudit\nfound = faudit.runs({str(store)!r}).where(rule='dfa')\nfound._repr_html_(); len(found)\n"
        "found.plot('gamma'); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
