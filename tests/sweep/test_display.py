"""What a sweep shows of its runs: plain lines, bars on a terminal, and the time that is left."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from faudit.config import RunConfig
from faudit.store.rows import Row
from faudit.sweep.display import Bars, Lines, Pace
from faudit.train import fit
from tests.support.runs import TINY


def test_a_long_run_has_at_most_one_plain_line_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(TINY, tmp_path)
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = Lines({TINY.run_id: TINY}, {}, tmp_path)
    lines.began(TINY)
    for now in (1001.0, 1061.0, 1062.0, 1100.0, 1122.0):  # noqa: B007  # the clock reads it
        lines.tick([TINY])
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all(line.startswith(f"{TINY.run_id}  epoch 2/2  acc 0.") for line in said)


def test_a_terminal_shows_counts_and_the_running_runs(tmp_path: Path) -> None:
    done, running, new = TINY, TINY.with_(seed=1), TINY.with_(seed=2)
    fit(running, tmp_path)  # as good as running, for who looks at its rows
    text = io.StringIO()
    wanted = {config.run_id: config for config in (done, running, new)}
    console = Console(file=text, force_terminal=True, width=80, highlight=False)
    bars = Bars(wanted, {done.run_id: ("done", "")}, tmp_path, console=console)
    with bars.screen:
        bars.began(running)
        bars.tick([running, new])
        middle = text.getvalue()
        bars.ended(running, "done", "")
        bars.ended(new, "left", "no [files]")
        bars.tick([])
    assert "1/3 runs: 1 done  0 failed  0 left out" in middle
    assert f"{running.run_id}  2/2" in middle and "acc 0." in middle and f"{new.run_id}  –/2" in middle
    after = text.getvalue().removeprefix(middle)
    assert "3/3 runs: 2 done  0 failed  1 left out" in after and f"{new.run_id}  left out  no [files]" in after


def test_the_pace_of_a_run_tells_the_time_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace, config = Pace(), RunConfig(epochs=10)
    assert pace.left(config, None) == pace.left(config, Row(epoch=2)) == ""
    now = 120.0
    assert pace.left(config, Row(epoch=4)) == "0:01:00 left"
    assert pace.left(config, Row(epoch=1)) == ""  # back at a checkpoint: measured anew
    now = 121.0
    assert pace.left(config, Row(epoch=2)) == "0:00:08 left"
