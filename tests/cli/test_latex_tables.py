"""Every table that a command prints as LaTeX compiles and fits the line of a paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.audit.sheet import Grid, as_latex
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import judged
from faudit.papers.page import tex
from tests.support import fabricate
from tests.support.latex import check, compiled


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("latex") / "runs"
    for seed in (42, 123, 456):
        fabricate.write(RunConfig(rule="bp", epochs=2, seed=seed), path)
        fabricate.write(RunConfig(rule="dfa", epochs=2, seed=seed), path)
        fabricate.write(RunConfig(rule="dfa", epochs=2, seed=seed, penalty=0.01, no_terminal_norm=True), path)
    return path


def must_compile(text: str, folder: Path) -> None:
    log = compiled(rf"\noindent {text}", folder)
    if log is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    assert log == ""


@pytest.mark.parametrize(
    "words",
    [
        ("show", "--latex"),
        ("show", "--latex", "--group"),
        ("compare", "rule=bp", "rule=dfa,penalty=0", "--entry", "test_acc", "loss_eval", "--latex"),
        ("compare", "rule=bp", "rule=dfa,penalty=0", "--entry", "gamma", "--over", "deep", "--latex"),
    ],
)
def test_a_table_of_a_command(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main([*words, "--runs", str(store)]) == 0
    must_compile(capsys.readouterr().out, tmp_path)


def test_the_claims_of_a_paper(tmp_path: Path) -> None:
    paper = PAPERS["faeval"]
    plan = paper.plan("digits", epochs=2)
    fabricate.all_runs(plan, tmp_path / "runs")
    must_compile(tex(paper, judged(paper.claims, Table(plan, tmp_path / "runs")), plan=plan), tmp_path)


def test_a_table_too_wide_or_too_long_for_a_page_is_split(tmp_path: Path) -> None:
    blocks = Grid(["block", *map(str, range(30))], [["Γ", *["+0.123"] * 30]], "A deep net.")
    runs = Grid(
        ["run", "a long name", "another one"], [[f"run {k}", "✓", "✗"] for k in range(100)], "Runs.", keyed=True
    )
    text = as_latex([blocks, runs])
    check(text)
    assert text.count("A deep net. Part 4 of 4.") == 1 and text.count("0.123") == 30
    assert text.count("Runs. 1: a long name; 2: another one. Part 3 of 3.") == 1 and text.count("run 99 ") == 1
    assert len(Grid(["a"], [], "None.").latex()) == 1
    must_compile(text, tmp_path)
