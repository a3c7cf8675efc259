"""How far many runs are: a live display on a terminal, plain lines otherwise; always on stderr.

How a run stands is read from its directory, a running one's numbers from the end of its rows.jsonl: the trainer knows
of no display.
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

Ends = Mapping[str, tuple[str, str]]  # of runs by run id: done, failed or left, and why

WORDS = {Status.DONE: "done", Status.FAILED: "failed", "left": "left out"}  # "0 left" would read as "none to go"
TAIL = 1 << 18  # bytes from the end of rows.jsonl: more than the row of any net
LINE_EVERY = 60.0  # seconds between two plain lines on one running run
DRAW_EVERY = 0.25  # seconds between two looks at the running runs for a live display


class Display(Protocol):
    """What a sweep tells of itself."""

    def began(self, config: RunConfig) -> None: ...

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        """A run is ``done``, has ``failed``, or is ``left``; the text says why, or who did it if not we."""

    def say(self, text: str) -> None: ...

    def tick(self, running: Sequence[RunConfig]) -> None:
        """Called a few times a second with the runs that are being trained, here or by another process."""


@contextmanager
def shown(wanted: Mapping[str, RunConfig], ends: Ends, runs: Path) -> Iterator[Display]:
    """The display that suits stderr; ``ends`` are the runs that need nothing any more."""
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
    """How fast runs go since they were first looked at, and so how long they still take."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}

    def left(self, config: RunConfig, row: Row | None) -> str:
        """The time to a run's end; nothing as long as it has not moved."""
        if row is None:
            return ""
        now, epoch = time.monotonic(), row["epoch"]
        since, first = self._first.setdefault(config.run_id, (now, epoch))
        if epoch < first:  # back at an earlier checkpoint
            self._first[config.run_id] = (now, epoch)
        if epoch <= first:
            return ""
        seconds = (now - since) / (epoch - first) * (config.epochs - epoch)
        return f"{timedelta(seconds=round(seconds))} left"


class Lines:
    """One line when a run ends, and now and then one on a run that takes long."""

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
        except BrokenPipeError:  # whoever listened left, as `head` does: no reason to stop training
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
    """One bar over all epochs of all runs, and a line for each run that is being trained (or the first of many)."""

    def __init__(self, wanted: Mapping[str, RunConfig], ends: Ends, runs: Path, *, console: Console) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._runs, self._total, self._console = runs, len(wanted), console
        self._counts = Counter(word for word, _ in ends.values())
        self._epochs = sum(wanted[name].epochs for name in ends)  # of the runs that have ended
        self._drawn, self._pace = 0.0, Pace()
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn())
        # Epochs may take minutes: rich's usual 30 seconds would hold too few of them to tell a speed.
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
    """A run's status and, where it failed, the reason; ``left`` for one whose files cannot be used."""
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
    """The newest whole row of a run, None where there is none yet; only the end of the file is read."""
    try:
        with open(Run(path).rows_file, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().split(b"\n")[:-1]  # what follows the last newline is being written
        return from_lines(lines[-1:], where=str(path))[0] if lines else None
    except (OSError, StoreError):  # not there, or damaged: whoever trains or reads the run says so
        return None


def glimpse(row: Row | None) -> str:
    """What a person wants to see of a run among many."""
    if row is None:
        return ""
    return f"acc {share(row.get('acc_eval'))}  ‖h_L‖ {size((row.get('hidden_norms') or [None])[-1])}"
