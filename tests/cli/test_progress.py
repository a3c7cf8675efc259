"""A slow command says how much is done and how much time is left; a quick one says nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from faudit.cli import progress
from faudit.cli.main import main
from faudit.papers.faeval.import_ import import_files
from faudit.store.counts import telling
from tests.support.fabricate import write
from tests.support.runs import TINY


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock whose hand the test moves."""
    now = [100.0]
    monkeypatch.setattr("faudit.cli.progress.time.monotonic", lambda: now[0])
    return now


def test_the_time_left_by_hand(clock: list[float]) -> None:
    pace = progress.Pace()
    assert pace.left(10, 40) == ""  # 10 were done before
    clock[0] += 20
    assert pace.left(10, 40) == "" and pace.left(20, 40) == "0:00:40 left" and pace.left(40, 40) == ""


def test_plain_lines_begin_after_two_seconds(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.counting("audit") as tell:
        tell(0, 100, "")
        for done, seconds in ((1, 1.0), (2, 1.0), (3, 0.1), (4, 0.9)):
            clock[0] += seconds
            tell(done, 100, f"run-{done}")
    said = capsys.readouterr().err.splitlines()
    assert said == ["audit  2/100  run-2  0:01:38 left", "audit  4/100  run-4  0:01:12 left"]


def test_a_download_says_the_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.downloads() as tell:
        for done in (0, 500, 1000):
            tell("file", done, 1000)
            clock[0] += 10
    assert capsys.readouterr().err.splitlines() == [
        "file  0 of 1,000 bytes", "file  500 of 1,000 bytes  0:00:10 left", "file  1,000 of 1,000 bytes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "loops"),
    [
        (["audit", "--all", "--protocol", "paper"], (3, 3)),  # first all runs are listed
        (["export", "--format", "csv", "--out", "-"], (6,)),  # an export reads each run twice
        (["show"], (3,)),
        (["plot", "acc_eval", "--out", "plot.svg"], (3, 3)),
        (["compare", "seed=0", "seed=0"], (3,)),
        (["report", "--out", "-"], (3,)),
        (["report", "--audit", "--out", "-"], (3, 3, 3)),
    ],
)
def test_commands_over_many_runs_count_them(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    loops: tuple[int, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        write(TINY.with_(seed=seed), tmp_path / "runs")
    monkeypatch.setattr(progress, "SLOW", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    main(words)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(words[0])]
    counts = [tuple(map(int, line.split()[1].split("/"))) for line in lines]
    assert counts == [(done, total) for total in loops for done in range(1, total + 1)]
    assert "left" in lines[0] and "left" not in lines[-1]


def test_files_that_are_imported_are_counted(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    said: list[tuple[int, int, str]] = []
    with telling(lambda *words: said.append(words)):
        import_files(files, tmp_path / "runs")  # neither exists
    assert said == [(0, 2, ""), (1, 2, "a.json"), (2, 2, "b.json")]


def test_a_terminal_gets_a_bar_that_goes_away_when_all_is_done(tmp_path: Path) -> None:
    program = (
        "import sys, time; from faudit.cli.progress import counting\n"
        "with counting('audit') as tell:\n"
        "    tell(0, 2, '')\n    time.sleep(0.3)\n    tell(1, 2, 'run-[1]')\n    time.sleep(0.3)\n"
        "    tell(2, 2, 'run-[2]')\n    print('RESULT', file=sys.stderr)\n"
        "    tell(0, 3, '')\n    tell(1, 3, 'second loop')\n    time.sleep(0.3)\n"
        "with counting('show', after=60) as tell:\n    tell(1, 2, 'too quick for a bar')\n"
    )
    ours, theirs = pty.openpty()
    done = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert done.wait(30) == 0
    assert b"1/2" in said and b"run-[1]" in said and said.rstrip().endswith(b"\x1b[2K")
    before, _, behind = said.partition(b"RESULT")
    assert before.endswith(b"\x1b[2K") and b"second loop" in behind and b"too quick" not in said
