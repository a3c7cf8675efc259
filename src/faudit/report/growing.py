"""The rows of a run that has not ended. A second look reads and checks only the lines that were appended.

Training appends lines to one file. A resumed run writes its file anew, and a new file has another number. The last line
that is known must still be where it was. If not, every line is read again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from faudit.report.series import Columns, columns, extended
from faudit.store.files import contents, refusals
from faudit.store.rows import Row, from_lines
from faudit.store.run import Run


@dataclass(frozen=True)
class Growing:
    """The rows of a run and their columns. The first ``kept`` rows and their columns are those of the look before."""

    rows: Sequence[Row]
    series: Columns
    file: int  # the number of the file
    size: int  # bytes of its complete lines
    last: bytes  # the last of them
    kept: int = 0


def growing(run: Run, before: Growing | None) -> Growing:
    """The rows of a run now; ``before`` is what the last look found."""
    path, file = f"{run.path}/rows.jsonl", 0
    with suppress(OSError):
        file = os.stat(path).st_ino
    if before is not None and before.rows and before.file == file:
        with refusals(path):
            lines = contents(path, before.size - len(before.last) - 1).split(b"\n")[:-1]  # without one cut short
        if lines[:1] == [before.last]:
            return longer(before, lines[1:], where=path)
    lines = run.row_lines()
    rows = from_lines(lines, where=path)
    return Growing(rows, columns(rows), file, sum(map(len, lines)) + len(lines), lines[-1] if lines else b"")


def longer(before: Growing, lines: Sequence[bytes], *, where: str) -> Growing:
    """The rows with more lines, which are checked together with the last one: they must follow its epoch."""
    count = len(before.rows)
    more = from_lines([before.last, *lines], where=where, first=count)[1:]
    rows = [*before.rows, *more]
    series = extended(before.series, more)
    size, last = before.size + sum(map(len, lines)) + len(lines), lines[-1] if lines else before.last
    if series is None:
        return Growing(rows, columns(rows), before.file, size, last)
    return Growing(rows, series, before.file, size, last, kept=count)
