"""Show the progress of a download or a count on stderr: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from faudit.store.counts import Tell, telling

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 1.0  # seconds between two plain lines of a count
SLOW = 2.0  # seconds before the first plain line of a count: a quick command prints none


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of a download. Yields a function of (name, bytes so far, total bytes or None)."""
    if not sys.stderr.isatty():
        yield _finished_lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    tasks: dict[str, TaskID] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def tell(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield tell


def _finished_lines() -> Callable[[str, int, int | None], None]:
    """Print one line at every tenth of a file, which is enough for a log."""
    told: dict[str, int] = {}
    paces: dict[str, Pace] = {}

    def tell(name: str, done: int, total: int | None) -> None:
        tenth = 10 * done // total if total else done >> 24
        left = paces.setdefault(name, Pace()).left(done, total) if total else ""
        if tenth > told.get(name, -1):
            told[name] = tenth
            size = f"{total:,}" if total else "?"
            print(f"{name}  {done:,} of {size} bytes  {left}".rstrip(), file=sys.stderr, flush=True)

    return tell


class Pace:
    """Estimates the time that is left from the speed since the first call."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._first: int | None = None

    def left(self, done: int, total: int) -> str:
        """The time left in words; empty if nothing was done since the first call, or all is done."""
        if self._first is None:
            self.began, self._first = time.monotonic(), done
        if done <= self._first or done >= total:
            return ""
        seconds = (time.monotonic() - self.began) / (done - self._first) * (total - done)
        return f"{timedelta(seconds=round(seconds))} left"


@contextmanager
def counting(title: str, *, after: float = 0.0) -> Iterator[Tell]:
    """Show how many of several things are done, and the time left. Yields a function of (done, total, the last one).

    Call it first with what was done before. Plain lines, one for each thing, begin after two seconds, a bar after
    ``after``. The bar goes away when all is done. Loops that are counted inside are not shown.
    """
    with telling(None):
        if not sys.stderr.isatty():
            yield _counted_lines(title)
            return
        bar = _Bar(title, after)
        try:
            yield bar.tell
        finally:
            bar.stop()


class _Bar:
    """A bar on a terminal. It is made when it is first shown, because most commands are done before."""

    def __init__(self, title: str, after: float) -> None:
        self.title, self.after, self.began = title, after, time.monotonic()
        self.bar: Any = None

    def tell(self, done: int, total: int, says: str) -> None:
        if time.monotonic() - self.began < self.after:
            return
        if self.bar is None:
            self.bar, self.task = _bar(self.title)
        if done == 0:
            self.bar.reset(self.task, total=total)
        self.bar.start()  # here, since there can be one live display at a time, and a sweep may come first
        self.bar.update(self.task, completed=done, total=total, says=says)
        if done >= total:
            self.bar.stop()

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _bar(title: str) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[says]}", markup=False),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    return bar, bar.add_task(title, total=None, says="")


def _counted_lines(title: str) -> Tell:
    """Print a line for each thing that is done, one a second at most, once two seconds have passed."""
    began, pace, told = time.monotonic(), Pace(), 0.0

    def tell(done: int, total: int, says: str) -> None:
        nonlocal pace, told
        if done == 0:  # another loop begins
            pace = Pace()
        left, now = pace.left(done, total), time.monotonic()
        if says and total > 1 and now - began >= SLOW and now - told >= EVERY:
            told = now
            print(f"{title}  {done}/{total}  {says}  {left}".rstrip(), file=sys.stderr, flush=True)

    return tell
