"""A run's summary: what `faudit train --json`, `faudit show` and `done.json` say of a run.  (no torch)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faudit.config import quoted
from faudit.errors import StoreError
from faudit.store.rows import OVERFLOWED, Row, finite, growth
from faudit.store.run import Run

SUMMED = {"test_acc", "growth_max", "seconds"}  # what ``done.json`` holds of all rows
TEXTS = ("reason", "data_sha256", "weights_sha256")
NUMBERS = ("epochs", "test_acc", "acc_eval", "loss_eval", "hidden_norm", "grad_norm", "growth", "growth_max", "seconds")
EXACT = 2**53  # whole numbers up to here are floats too


@contextmanager
def whole_rows(run: Run) -> Iterator[None]:
    """A row without the entries or types that every row has is damage, not a bug."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        got = f"none named {error.args[0]!r}" if isinstance(error, KeyError) else "one of another type"
        raise StoreError(f"{run.rows_file} is damaged: expected the entries of a row, got {got}") from error


def overview(run: Run) -> dict[str, Any]:
    """What ``faudit train --json`` and ``faudit show --json`` say of a run; null where a number is not there yet."""
    with whole_rows(run):
        entry = _overview(run)
    for name in (*TEXTS, *NUMBERS, "gamma"):
        if not is_right(name, entry[name]):
            expected = "text" if name in TEXTS else "lists of numbers" if name == "gamma" else "numbers"
            ended = name in ("reason", "weights_sha256") or (name in SUMMED and (run.outcome() or {}).keys() >= SUMMED)
            file = "env.json" if name == "data_sha256" else f"{entry['status']}.json" if ended else "rows.jsonl"
            raise StoreError(f"{run.path}/{file} is damaged: {name!r}: expected {expected}, got {quoted(entry[name])}")
    return entry


def is_right(name: str, value: Any) -> bool:
    """Whether an entry can be shown and kept: one run's damage must not break the table of all."""
    if name == "gamma" and isinstance(value, list):
        return all(map(is_number, value))
    return value is None or (isinstance(value, str) if name in TEXTS else name != "gamma" and is_number(value))


def is_number(value: Any) -> bool:
    """Whether a value is a number that a table can hold, a word for one that overflowed, or null."""
    if isinstance(value, str):
        return value in OVERFLOWED
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) <= EXACT)


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
