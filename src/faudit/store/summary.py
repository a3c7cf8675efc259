"""The summary of a run, as in `faudit train --json`, `faudit show` and `done.json`."""

from __future__ import annotations

from typing import Any

from faudit.store.rows import Row, finite, growth
from faudit.store.run import ENDED, Run

SUMMED = {"test_acc", "growth_max", "seconds"}  # computed over all rows when a run ends


def overview(run: Run) -> dict[str, Any]:
    """The summary in ``faudit train --json`` and ``faudit show --json``; null if a number does not exist yet."""
    config, status = run.config(), run.status
    outcome = (run.outcome() or {}) if status in ENDED else {}
    summed = outcome.keys() >= SUMMED  # then the last row has everything else
    rows = run.last_rows() if summed else run.rows()
    last = rows[-1] if rows else Row()
    hidden, gradients = last.numbers("hidden_norms"), last.numbers("grad_norms")
    grown = [] if summed else [grown for row in rows if (grown := growth(row["hidden_norms"])) is not None]
    tested = [] if summed else [row["test_acc"] for row in rows if row["test_acc"] is not None]
    return {
        "run": str(run.path),
        "run_id": config.run_id,
        "status": status.value,
        "reason": outcome.get("reason"),
        "epochs": last.get("epoch"),
        "epochs_asked": config.epochs,
        "test_acc": outcome["test_acc"] if summed else finite(tested[-1]) if tested else None,
        "acc_eval": finite(last.number("acc_eval")),
        "loss_eval": finite(last.number("loss_eval")),
        "hidden_norm": finite(hidden[-1]) if hidden else None,
        "grad_norm": finite(gradients[-1]) if gradients else None,
        "growth": finite(growth(hidden)),
        "growth_max": outcome["growth_max"] if summed else finite(max(grown)) if grown else None,
        "gamma": list(map(finite, last["gamma"])) if rows else None,
        "data_sha256": run.environment().get("data_sha256"),
        "seconds": outcome["seconds"] if summed else round(sum(r["seconds"] + r["probe_seconds"] for r in rows), 2),
        "weights_sha256": outcome.get("weights_sha256"),
        "config": {name: list(value) if type(value) is tuple else value for name, value in config.to_json().items()},
    }
