"""Tables to print: all runs with one line each, or one run in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from faudit.config import key
from faudit.formats import gammas, share, size, times
from faudit.store.rows import growth
from faudit.store.run import Run

COLUMNS = ["run", "status", "epoch", "test acc", "acc", "‖h_L‖", "growth", "‖g_L‖", "Γ per block"]  # of a store's list
LEFT = ("run", "status", "Γ per block")  # the others are numbers
PLAIN_FROM = 500  # rows from which a table is plain text


def runs_table(entries: list[dict[str, Any]]) -> Table | str:
    """A table with one line per run."""
    return listed(COLUMNS, list(map(line, entries)), left=LEFT)


def listed(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Table | str:
    """A table of rows. Columns in ``left`` are aligned left. A long table is plain text, which is much faster."""
    if len(rows) >= PLAIN_FROM:
        return "\n".join(plain(columns, rows, left=left))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Iterator[str]:
    """The table as lines of plain text."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    aligned = [str.ljust if name in left else str.rjust for name in columns]
    for words in (columns, *rows):
        yield "  ".join(align(word, width) for align, word, width in zip(aligned, words, widths, strict=True)).rstrip()


def line(entry: dict[str, Any]) -> list[str]:
    """The cells of one run."""
    return [
        entry["run_id"],
        entry["status"],
        f"{entry['epochs'] if entry['epochs'] is not None else '–'}/{entry['epochs_asked'] or '–'}",
        share(entry["test_acc"]),
        share(entry["acc_eval"]),
        size(entry["hidden_norm"]),
        times(entry["growth"]),
        size(entry["grad_norm"]),
        gammas(entry["gamma"]),
    ]


def run_table(run: Run) -> Table:
    """Every row of one run."""
    table = Table(box=None, header_style="bold", pad_edge=False, title=run.name, title_justify="left")
    for column in (
        "epoch",
        "train loss",
        "loss",
        "acc",
        "test acc",
        "‖h_0‖",
        "‖h_L‖",
        "growth",
        "‖g_L‖",
        "Γ per block",
        "s",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for row in run.rows():
        table.add_row(
            str(row["epoch"]),
            size(row["train_loss"]),
            size(row["loss_eval"]),
            share(row["acc_eval"]),
            share(row["test_acc"]),
            size(row["hidden_norms"][0]),
            size(row["hidden_norms"][-1]),
            times(growth(row["hidden_norms"])),
            size(row["grad_norms"][-1]),
            gammas(row["gamma"]),
            f"{row['seconds'] + row['probe_seconds']:.2f}",
        )
    return table


def settings_line(run: Run) -> str:
    """The settings of a run that differ from their defaults."""
    changed = run.config().changed
    return " ".join(f"{key(name)}={value}" for name, value in changed.items()) or "all settings at their defaults"
