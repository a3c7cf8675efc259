"""The summary of a run, as in ``done.json``, ``faudit show`` and ``--json``."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from faudit.config import key
from faudit.formats import gammas, html_table, share, size, times
from faudit.own_members import MEMBERS
from faudit.store.rows import Row, finite, growth
from faudit.store.run import ENDED, Run, Status

SUMMED = {"test_acc", "growth_max", "seconds"}  # a run that ended by itself says them
SHOWN = 8  # rows on a page of a notebook


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """A summary of the last row and totals over all rows; null if a number does not exist yet.

    The test accuracy is that of the last row too. An untrained network has none worth telling.
    """
    last = rows[-1] if rows else Row()
    hidden, gradients = last.numbers("hidden_norms"), last.numbers("grad_norms")
    grown = [value for row in rows if (value := growth(row["hidden_norms"])) is not None]
    return {
        "epochs": last.get("epoch"),
        "test_acc": finite(last.number("test_acc")) if last.get("epoch") else None,
        "acc_eval": finite(last.number("acc_eval")),
        "loss_eval": finite(last.number("loss_eval")),
        "hidden_norm": finite(hidden[-1]) if hidden else None,
        "grad_norm": finite(gradients[-1]) if gradients else None,
        "growth": finite(growth(hidden)),
        "growth_max": finite(max(grown)) if grown else None,
        "seconds": round(sum(row["seconds"] + row["probe_seconds"] for row in rows), 2),
    }


def overview(run: Run) -> dict[str, Any]:
    """The summary in ``faudit train --json`` and ``faudit show --json``."""
    config, status = run.config(), run.status
    outcome = (run.outcome() or {}) if status in ENDED else {}
    ended = outcome.keys() >= SUMMED  # then done.json has the totals, and only the last row is read
    rows = run.last_rows(outcome) if ended else run.rows()
    totals = {name: outcome[name] for name in SUMMED} if ended else {}
    return {
        "run": str(run.path),
        "run_id": config.run_id,
        "status": status.value,
        "reason": outcome.get("reason"),
        "epochs_asked": config.epochs,
        **summary(rows),
        **totals,
        "gamma": list(map(finite, rows[-1]["gamma"])) if rows else None,
        "data_sha256": run.environment().get("data_sha256"),
        "weights_sha256": outcome.get("weights_sha256"),
        "config": {
            name: list(value) if type(value) is tuple else value
            for name, value in config.to_json().items()
            if name != MEMBERS
        },
        **({MEMBERS: {family: one.to_json() for family, one in config.own.items()}} if config.own else {}),
    }


def sentence(run: Run) -> str:
    """A run in one line: name, status, epoch, test accuracy, growth."""
    if run.status == Status.NEW:
        return f"{run.name}: {run.status}"
    entry = overview(run)
    epoch = "–" if entry["epochs"] is None else entry["epochs"]
    return (
        f"{run.name}: {entry['status']}, epoch {epoch}/{entry['epochs_asked']}, test acc {share(entry['test_acc'])}, "
        f"growth {times(entry['growth'])}"
    )


def page(run: Run) -> str:
    """A run in HTML: its line, the settings that are not at their default, and its last rows."""
    title = f"<p>{html.escape(sentence(run))}</p>"
    if run.status == Status.NEW:
        return title
    changed = [[key(name), str(value)] for name, value in run.config().changed.items()]
    head = ["epoch", "train loss", "acc", "test acc", "‖h_L‖", "growth", "‖g_L‖", "Γ per block"]
    rows = [
        [
            str(row["epoch"]),
            size(row["train_loss"]),
            share(row["acc_eval"]),
            share(row["test_acc"]),
            size(row["hidden_norms"][-1]),
            times(growth(row["hidden_norms"])),
            size(row["grad_norms"][-1]),
            gammas(row["gamma"]),
        ]
        for row in run.rows()[-SHOWN:]
    ]
    return title + (html_table([["setting", "value"], *changed]) if changed else "") + html_table([head, *rows])
