"""A run's summary: what `faudit train --json`, `faudit show` and `done.json` say of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faudit.errors import StoreError
from faudit.store.rows import Row, finite, growth
from faudit.store.run import ENDED, Run

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
    outcome = (run.outcome() or {}) if status in ENDED else {}
    summed = outcome.keys() >= SUMMED  # of all rows, when the run ended: then the last one says the rest
    rows = run.last_rows() if summed else run.rows()
    last: Row = rows[-1] if rows else {}
    hidden = last.get("hidden_norms") or [None]
    grown = [] if summed else [grown for row in rows if (grown := growth(row["hidden_norms"])) is not None]
    return {
        "run": str(run.path),
        "run_id": config.run_id,
        "status": status.value,
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
