"""``faudit export`` and ``faudit import``: the flags of each format, and which of them mean nothing to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.papers.faeval import PAPER
from tests.support import fabricate

PLAN = PAPER.plan("digits", epochs=2, seeds=(42,))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    fabricate.all_runs(PLAN, tmp_path / "runs", ["resmlp bp", "student bp"])
    return tmp_path / "runs"


def test_a_papers_files_are_the_default_and_are_named_after_the_paper(runs: Path, tmp_path: Path) -> None:
    assert main(["export", "--runs", str(runs), "--out", str(tmp_path / "a")]) == 0
    assert main(["export", "--format", "faeval", "--runs", str(runs), "--out", str(tmp_path / "b")]) == 0
    written = [sorted(path.relative_to(tmp_path / out) for path in (tmp_path / out).rglob("*.json")) for out in "ab"]
    assert written[0] == written[1] and len(written[0]) == 2, "the store's data and length, whatever StudentNet ran on"
    files = [str(tmp_path / "a" / path) for path in written[0]]
    assert main(["import", *files, "--format", "faeval", "--runs", str(tmp_path / "back")]) == 0
    assert len(list((tmp_path / "back").glob("imported-*"))) == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--format", "study"], "invalid choice: 'study'"),
        (["--format", "csv", "--seeds", "1"], "--seeds: expected with a paper's files, got it with --format csv"),
        (["--format", "parquet", "--epochs", "2"], "Choose the runs of a table with --where epochs=VALUE"),
        (["--where", "rule=bp"], "Add --format csv"),
        (["--epochs", "0"], "--epochs: expected at least 1, got 0"),
        (["--seeds", "7"], "holds no run of the paper with these seeds"),
    ],
)
def test_what_means_nothing_to_a_format_is_refused_in_a_line(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert main(["export", "--runs", str(runs), "--out", str(tmp_path / "out"), *flags]) == 2
    said = capsys.readouterr().err
    assert told in said and len(said.splitlines()) == 1 and not (tmp_path / "out").exists()
