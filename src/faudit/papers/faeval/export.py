"""Write runs as the paper's result files."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faudit.config import RunConfig, known
from faudit.errors import StoreError
from faudit.figures.table import Series, Table
from faudit.papers.document import strict
from faudit.papers.faeval.files import FILES, NAMES, PENALTY, PLAIN, SHAPE
from faudit.store.files import refusals, write_json
from faudit.store.rows import Row
from faudit.store.run import IMPORTED, Run, damaged

Log = tuple[Series, Mapping[str, Any]]  # a run with its entries and, if it was imported, the rest of its file


def export(table: Table, out: Path) -> list[Path]:
    """Write every file of the paper for which the table has a run. A log without a run is null."""
    names = [name for keys in FILES.values() for name in keys.values()]
    runs = {(name, one.seed): one for name in names for one in table.series(name)}
    written = []
    for seed in table.plan.seeds:
        for file, keys in FILES.items():
            there = {key: runs[name, seed] for key, name in keys.items() if (name, seed) in runs}
            logs = {key: log for key, series in there.items() if (log := outgoing(table, key, series))}
            if logs:
                path = out / "results" / file.format(seed=seed)
                with refusals(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, strict(restored(logs) or composed(list(keys), logs), where=str(path)))
                written.append(path)
    return written


def outgoing(table: Table, key: str, series: Series) -> Log | None:
    """A run as a log of the paper; None, with a remark, if the run is damaged."""
    try:
        if series.imported:
            return series, kept_document(series.run)
        return series, {"entries": [to_entry(row, series.config, key=key) for row in rows_of_depth(series)]}
    except StoreError as error:
        table.remark(f"left out: {error}")
        return None


def kept_document(run: Run) -> dict[str, Any]:
    """What an imported run keeps of the file it came from."""
    kept, wanted = run.environment().get(IMPORTED), {"entries": list, "sha256": str, "head": dict}
    if not isinstance(kept, dict) or any(not isinstance(kept.get(name), kind) for name, kind in wanted.items()):
        raise StoreError(
            f"{run.path}/env.json is damaged: expected {', '.join(wanted)} under 'imported', got "
            f"{reprlib.repr(kept)}. Delete {run.path} and import the file again."
        )
    return {name: kept[name] for name in wanted}


def rows_of_depth(series: Series) -> list[Row]:
    """A run's rows. Raises if they do not have the depth of its configuration."""
    taps, wanted = len(series.rows[0]["hidden_norms"]), series.config.depth + 1
    if taps != wanted:
        raise damaged(series.run.rows_file, f"hidden_norms: expected {wanted} numbers, one a tap, got {taps}")
    return series.rows


def to_entry(row: Row, config: RunConfig, *, key: str) -> dict[str, Any]:
    """One row in the paper's words and units."""
    # A small test set has fewer samples than eval_size. Older rows do not record the number.
    n = row.number("eval_samples") or config.eval_size
    hidden, gradients = row["hidden_norms"], of_mean_loss(row["grad_norms"], n)
    if key == PENALTY:
        return {"epoch": row["epoch"], "h_L_norm": hidden[-1], "g_2_norm": gradients[2], "acc_eval": row["acc_eval"]}
    taps = (hidden, gradients, of_mean_loss(row["grad_norms_frobenius"], n))
    gamma = row["gamma"]  # BP has no DFA credit to align, and the paper's number is the mean over all blocks
    headline = None if config.rule == "bp" or None in gamma else sum(gamma) / len(gamma)
    scores = {"gamma_dfa": headline, "acc_eval": row["acc_eval"], "loss_eval": row["loss_eval"]}
    return {"epoch": row["epoch"], **dict(zip(NAMES[config.net == "vit"], taps, strict=True)), **scores}


def of_mean_loss(sizes: list[float | None], n: float) -> list[float | None]:
    """Convert gradients of each sample's own loss into gradients of the mean loss over n samples."""
    return [None if size is None else size / n for size in sizes]


def restored(logs: Mapping[str, Log]) -> dict[str, Any] | None:
    """The document that these logs were imported from; None if they do not all come from one document."""
    kept = [kept for _, kept in logs.values()]
    if len({one.get("sha256") for one in kept}) > 1 or "head" not in kept[0]:
        return None
    return {key: logs[key][1]["entries"] if key in logs else value for key, value in kept[0]["head"].items()}


def composed(keys: list[str], logs: Mapping[str, Log]) -> dict[str, Any]:
    """A document made from runs: the settings that the paper's files have, and each run's whole configuration."""
    first = next(iter(logs.values()))[0]
    config = first.config
    settings = {name: config.settings.get(name, known()[name].first.default) for name in PLAIN}
    settings["eval_samples"] = first.rows[0].get("eval_samples", config.eval_size)
    shape = {name: getattr(config, setting) for name, setting in SHAPE.items()}
    shape["num_classes"] = 100 if config.data == "cifar100" else 10
    if keys == [PENALTY]:
        settings["lam"], shape = config.penalty, {}
    settings["faudit"] = {key: series.config.to_json() for key, (series, _) in logs.items()}
    return {"config": settings, **shape, **{key: logs[key][1]["entries"] if key in logs else None for key in keys}}
