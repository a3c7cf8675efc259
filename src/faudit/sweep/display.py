"""Show the progress of a sweep on stderr: a live display on a terminal, plain lines otherwise.

The display reads the status of a run from its directory, and the numbers of a running run from the end of its
rows.jsonl. The trainer does not know about the display.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.formats import share, size
from faudit.store.rows import Row, from_lines
from faudit.store.run import ENDED, Run, Status

if TYPE_CHECKING:
    from rich.console import Console

Ends = Mapping[str, tuple[str, str]]  # run id → (done, failed or left; the reason)

WORDS = {Status.DONE: "done", Status.FAILED: "failed", "left": "left out"}  # not "0 left", which reads as "none to go"
TAIL = 1 << 18  # bytes from the end of rows.jsonl: more than the row of any net
LINE_EVERY = 60.0  # seconds between two plain lines about one running run
DRAW_EVERY = 0.25  # seconds between two redraws of the live display


class Display(Protocol):
    """Receives the events of a sweep."""

    def began(self, config: RunConfig) -> None: ...

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        """A run is ``done``, ``failed`` or ``left``. The text gives the reason, or says that another process did it."""

    def say(self, text: str) -> None: ...

    def tick(self, running: Sequence[RunConfig]) -> None:
        """Called a few times a second with the runs that are being trained, here or by another process."""


@contextmanager
def shown(wanted: Mapping[str, RunConfig], ends: Ends, runs: Path) -> Iterator[Display]:
    """The display that suits stderr. ``ends`` holds the runs that have already ended."""
    if not sys.stderr.isatty():
        yield Lines(wanted, ends, runs)
        return
    from rich.console import Console

    display = Bars(wanted, ends, runs, console=Console(stderr=True, highlight=False))
    with display.screen:
        yield display


class Together:
    """Several displays as one."""

    def __init__(self, displays: Sequence[Display]) -> None:
        self._displays = displays

    def began(self, config: RunConfig) -> None:
        for display in self._displays:
            display.began(config)

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        for display in self._displays:
            display.ended(config, word, text)

    def say(self, text: str) -> None:
        for display in self._displays:
            display.say(text)

    def tick(self, running: Sequence[RunConfig]) -> None:
        for display in self._displays:
            display.tick(running)


class Pace:
    """Estimates the remaining time of each run from its speed since the first call."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}

    def left(self, config: RunConfig, row: Row | None) -> str:
        """The remaining time of a run; empty until it has finished an epoch since the first call."""
        if row is None:
            return ""
        now, epoch = time.monotonic(), row["epoch"]
        since, first = self._first.setdefault(config.run_id, (now, epoch))
        if epoch < first:  # it resumed from an earlier checkpoint
            self._first[config.run_id] = (now, epoch)
        if epoch <= first:
            return ""
        seconds = (now - since) / (epoch - first) * (config.epochs - epoch)
        return f"{timedelta(seconds=round(seconds))} left"


class Lines:
    """Prints one line when a run ends, and at most one line per minute about a running run."""

    def __init__(self, wanted: Mapping[str, RunConfig], ends: Ends, runs: Path) -> None:
        self._runs, self._total, self._ended = runs, len(wanted), len(ends)
        self._began: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._pace = Pace()
        self._listener = True

    def say(self, text: str) -> None:
        try:
            if self._listener:
                print(text, file=sys.stderr, flush=True)
        except BrokenPipeError:  # the reader has exited, as `head` does: training goes on
            self._listener = False

    def began(self, config: RunConfig) -> None:
        self._began[config.run_id] = self._told[config.run_id] = time.monotonic()

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        self._ended += 1
        says = text
        if word == Status.DONE:
            took = text or f"{time.monotonic() - self._began[config.run_id]:.0f} s"
            says = f"{glimpse(last_row(self._runs / config.run_id))}  {took}"
        self.say(f"[{self._ended}/{self._total}] {config.run_id}  {WORDS[word]}  {says}")

    def tick(self, running: Sequence[RunConfig]) -> None:
        now = time.monotonic()
        for config in running:
            row = (
                last_row(self._runs / config.run_id) if now - self._told.get(config.run_id, 0.0) >= LINE_EVERY else None
            )
            if row:
                self._told[config.run_id] = now
                left = self._pace.left(config, row)
                self.say(f"{config.run_id}  epoch {row['epoch']}/{config.epochs}  {glimpse(row)}  {left}".rstrip())


class Bars:
    """Draws one bar over all epochs of all runs, and a line for each running run (the first ones if there are many)."""

    def __init__(self, wanted: Mapping[str, RunConfig], ends: Ends, runs: Path, *, console: Console) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._runs, self._total, self._console = runs, len(wanted), console
        self._counts = Counter(word for word, _ in ends.values())
        self._epochs = sum(wanted[name].epochs for name in ends)  # of the runs that have ended
        self._drawn, self._pace = 0.0, Pace()
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn())
        # An epoch may take minutes. rich's default of 30 seconds would hold too few of them to estimate a speed.
        self._bar = Progress(*columns, console=console, speed_estimate_period=600)
        everything = sum(config.epochs for config in wanted.values())
        self._task = self._bar.add_task("", total=everything, completed=self._epochs)
        self.screen = Live(self._bar, console=console, refresh_per_second=4)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def began(self, config: RunConfig) -> None:
        self._drawn = 0.0

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        self._counts[word] += 1
        self._epochs += config.epochs
        self._drawn = 0.0
        if word != Status.DONE:
            self.say(f"{config.run_id}  {WORDS[word]}  {text}")

    def tick(self, running: Sequence[RunConfig]) -> None:
        from rich.console import Group
        from rich.table import Table

        if time.monotonic() - self._drawn < DRAW_EVERY:
            return
        self._drawn = time.monotonic()
        grid, epochs = Table.grid(padding=(0, 2)), self._epochs
        lines = max(1, self._console.height - 4)
        for place, config in enumerate(running):
            row = last_row(self._runs / config.run_id)
            epochs += row["epoch"] if row else 0
            left = self._pace.left(config, row)
            if place < lines:
                grid.add_row(config.run_id, f"{row['epoch'] if row else '–'}/{config.epochs}", glimpse(row), left)
        if len(running) > lines:
            grid.add_row(f"and {len(running) - lines} more")
        counts = "  ".join(f"{self._counts[word]} {said}" for word, said in WORDS.items())
        says = f"{self._counts.total()}/{self._total} runs: {counts}"
        self._bar.update(self._task, completed=epochs, description=says)
        self.screen.update(Group(self._bar, grid), refresh=True)


def standing(path: Path, config: RunConfig) -> tuple[str, str]:
    """A run's status and, if it failed, the reason; ``left`` if its files cannot be used."""
    run = Run(path)
    try:
        status = run.status
        if status in ENDED:
            run.must_hold(config)
            run.must_be_whole()
            return status, str((run.outcome() or {}).get("reason", ""))
    except StoreError as error:
        return "left", str(error)
    return status, ""


def last_row(path: Path) -> Row | None:
    """The newest complete row of a run, or None if there is none yet. Reads only the end of the file."""
    try:
        with open(Run(path).rows_file, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().split(b"\n")[:-1]  # a line without a newline is still being written
        return from_lines(lines[-1:], where=str(path))[0] if lines else None
    except (OSError, StoreError):  # missing or damaged: the code that trains or reads the run reports it
        return None


def glimpse(row: Row | None) -> str:
    """The main numbers of a row, in a few words."""
    if row is None:
        return ""
    return f"acc {share(row.get('acc_eval'))}  ‖h_L‖ {size((row.get('hidden_norms') or [None])[-1])}"
