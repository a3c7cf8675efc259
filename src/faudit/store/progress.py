"""Show the rows of a run on stderr as they come: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from faudit.formats import share, size, times
from faudit.store.rows import Row, growth


def shown(rows: Iterator[Row], *, total: int, title: str) -> None:
    """Consume the rows of a run and show each."""
    if sys.stderr.isatty():
        _bar(rows, total=total, title=title)
    else:
        for row in rows:
            print(f"{title}  epoch {row['epoch']}/{total}  {sentence(row)}", file=sys.stderr, flush=True)


def sentence(row: Row) -> str:
    """The main numbers of a row, for a plain line."""
    test = f"  test {share(row['test_acc'])}" if row["test_acc"] is not None else ""
    hidden = row["hidden_norms"]
    return (
        f"acc {share(row['acc_eval'])}{test}  loss {size(row['loss_eval'])}  "
        f"‖h_L‖ {size(hidden[-1])}  growth {times(growth(hidden))}  ‖g_L‖ {size(row['grad_norms'][-1])}"
    )


def brief(row: Row) -> str:
    """Fewer numbers, for the end of a bar in a terminal of 80 columns."""
    hidden = row["hidden_norms"]
    return f"acc {share(row['acc_eval'])}  ‖h_L‖ {size(hidden[-1])}  growth {times(growth(hidden))}"


def _bar(rows: Iterator[Row], *, total: int, title: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(title),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[says]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, says="")
        for row in rows:
            bar.update(task, completed=row["epoch"], says=brief(row))
