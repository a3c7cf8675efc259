"""Show the progress of a download on stderr: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of a download. Yields a function of (name, bytes so far, total bytes or None)."""
    if not sys.stderr.isatty():
        yield _finished_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    tasks: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def tell(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield tell


def _finished_lines() -> Callable[[str, int, int | None], None]:
    """Print one line at every tenth of a file, which is enough for a log."""
    told: dict[str, int] = {}

    def tell(name: str, done: int, total: int | None) -> None:
        tenth = 10 * done // total if total else done >> 24
        if tenth > told.get(name, -1):
            told[name] = tenth
            print(f"{name}  {done:,} of {f'{total:,}' if total else '?'} bytes", file=sys.stderr, flush=True)

    return tell
