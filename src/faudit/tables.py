"""Runs as tables for a person: one line each, or one run in full.  (no torch)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.table import Table

from faudit.config import SETTINGS, default, key
from faudit.errors import StoreError
from faudit.rows import Row, finite, growth
from faudit.store import Run

COLUMNS = ["run", "status", "epoch", "test acc", "acc", "‖h_L‖", "growth", "‖g_L‖", "Γ per block"]  # of a store's list
LEFT = ("run", "status", "Γ per block")  # the others are numbers
PLAIN_FROM = 500  # rows: a table of more is plain text

SUMMED = {"test_acc", "growth_max", "seconds"}  # what ``done.json`` holds of all rows


@contextmanager
def whole_rows(run: Run) -> Iterator[None]:
    """A row without the entries or types that every row has is damage, not a bug."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise StoreError(f"{run.rows_file} is damaged: expected the entries of a row, got {error!r}") from error


def overview(run: Run) -> dict[str, Any]:
    """What ``faudit train --json`` and ``faudit show --json`` say of a run; null where a number is not there yet."""
    with whole_rows(run):
        return _overview(run)


def _overview(run: Run) -> dict[str, Any]:
    config, status = run.config(), run.status
    outcome = (run.outcome() or {}) if status in ("done", "failed") else {}
    summed = outcome.keys() >= SUMMED  # of all rows, when the run ended: then the last one says the rest
    rows = run.last_rows() if summed else run.rows()
    last: Row = rows[-1] if rows else {}
    hidden = last.get("hidden_norms") or [None]
    grown = [] if summed else [grown for row in rows if (grown := growth(row["hidden_norms"])) is not None]
    return {
        "run": str(run.path),
        "run_id": config.run_id,
        "status": status,
        "reason": outcome.get("reason"),
        "epochs": last.get("epoch"),
        "epochs_asked": config.epochs,
        "test_acc": outcome["test_acc"]
        if summed
        else next((row["test_acc"] for row in reversed(rows) if row["test_acc"] is not None), None),
        "acc_eval": finite(last.get("acc_eval")),
        "loss_eval": finite(last.get("loss_eval")),
        "hidden_norm": finite(hidden[-1]),
        "grad_norm": finite((last.get("grad_norms") or [None])[-1]),
        "growth": finite(growth(hidden)) if rows else None,
        "growth_max": outcome["growth_max"] if summed else finite(max(grown)) if grown else None,
        "gamma": last.get("gamma"),
        "data_sha256": run.environment().get("data_sha256"),
        "seconds": outcome["seconds"] if summed else round(sum(r["seconds"] + r["probe_seconds"] for r in rows), 2),
        "weights_sha256": outcome.get("weights_sha256"),
        "config": {name: list(value) if type(value) is tuple else value for name, value in config.to_json().items()},
    }


def runs_table(entries: list[dict[str, Any]]) -> Table | str:
    """One line a run."""
    return listed(COLUMNS, list(map(line, entries)), left=LEFT)


def listed(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Table | str:
    """Rows under their columns, those named ``left`` aligned there; thousands as plain text, many times as fast."""
    if len(rows) >= PLAIN_FROM:
        return "\n".join(plain(columns, rows, left=left))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Iterator[str]:
    """The same as lines of text."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    aligned = [str.ljust if name in left else str.rjust for name in columns]
    for words in (columns, *rows):
        yield "  ".join(align(word, width) for align, word, width in zip(aligned, words, widths, strict=True)).rstrip()


def line(entry: dict[str, Any]) -> list[str]:
    """A run's cells."""
    return [
        entry["run_id"],
        entry["status"],
        f"{entry['epochs'] if entry['epochs'] is not None else '–'}/{entry['epochs_asked']}",
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
    with whole_rows(run):
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
    config = run.config()
    changed = {key(name): getattr(config, name) for name in SETTINGS if getattr(config, name) != default(name)}
    return " ".join(f"{name}={value}" for name, value in changed.items()) or "all settings at their defaults"


def share(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "–"


def size(value: Any) -> str:
    """Three digits of a number of any size; a dash where it was not measured or has no value."""
    return "–" if value is None else f"{float(value):.3g}"


def times(value: float | str | None) -> str:
    return "–" if value is None else f"{float(value):.3g}×"


def gammas(values: list[float | None] | None) -> str:
    return " ".join("  –  " if value is None else f"{float(value):+.2f}" for value in values or [])
