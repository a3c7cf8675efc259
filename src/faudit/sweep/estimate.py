"""Estimate how long the missing runs of a study take, from the measured runs of the store.

A run is compared with runs of the same shape (network, data, sizes, threads, device) and rule. If there are none, it is
compared with runs of the same shape and any rule. The estimate uses their median seconds per epoch. A run without any
comparable run gets no estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from faudit.config import RunConfig, key
from faudit.store.index import Overview, entries
from faudit.store.run import ENDED, Status
from faudit.sweep.display import last_row, standing

SHAPE = ("net", "data", "depth", "width", "batch_size", "dtype", "amp", "threads", "device", "eval_size", "log_every")
Times = Mapping[tuple[Any, ...], float]  # kind of run → seconds per epoch


@dataclass(frozen=True)
class Planned:
    """One run of a study: its state, its finished epochs, and the seconds that the rest takes (None: not measured)."""

    config: RunConfig
    state: str
    reason: str
    epochs: int
    seconds: float | None

    @property
    def about(self) -> str:
        if self.state in (*ENDED, "left out"):
            return self.reason
        return "not measured yet" if self.seconds is None else span(self.seconds)


@dataclass(frozen=True)
class Estimate:
    """The runs of a study with their times, and the damaged runs of the store."""

    runs: list[Planned]
    damaged: list[str]

    def lines(self, jobs: int) -> list[str]:
        """Lines to print: how many runs are done, and how long the others take."""
        ended = [one for one in self.runs if one.state == Status.DONE]
        failed = [one for one in self.runs if one.state == Status.FAILED]
        out = [one for one in self.runs if one.state == "left out"]
        left = [one for one in self.runs if one.state not in (*ENDED, "left out")]
        counts = f"{len(ended)} done, {len(failed)} failed, {len(left)} to make"
        counts += f", {len(out)} that cannot be used" if out else ""
        known = [one.seconds for one in left if one.seconds is not None]
        told = [f"{len(self.runs)} runs: {counts}"]
        if known:
            longest = max(sum(known) / jobs, max(known))
            told.append(f"about {span(longest)} with {jobs} at once, from the epochs measured in this store")
        if len(known) < len(left):
            told.append(f"{len(left) - len(known)} of them have no measured run of their shape: not estimated")
        return told


def estimated(configs: Sequence[RunConfig], store: Path) -> Estimate:
    """The state of each run, and its time estimated from the runs of the store."""
    found, damaged = entries(store) if store.is_dir() else ([], [])
    times: dict[tuple[Any, ...], list[float]] = {}
    for entry in found:
        if entry["epochs"] and entry["seconds"]:
            for kind in kinds(entry["config"]):
                times.setdefault(kind, []).append(entry["seconds"] / entry["epochs"])
    middle = {kind: median(values) for kind, values in times.items()}
    return Estimate([planned(config, store, middle) for config in configs], damaged)


def planned(config: RunConfig, store: Path, times: Times) -> Planned:
    state, reason = standing(store / config.run_id, config)
    row = last_row(store / config.run_id)
    epochs = min(row["epoch"], config.epochs) if row else 0
    measured = next((times[kind] for kind in kinds(config.to_json()) if kind in times), None)
    seconds = None if measured is None else measured * (config.epochs - epochs)
    return Planned(config, "left out" if state == "left" else state, reason, epochs, seconds)


def kinds(config: Overview) -> list[tuple[Any, ...]]:
    """The keys by which runs are compared, the closest first."""
    shape = tuple(config.get(key(name)) for name in SHAPE)  # a net may have no depth or width
    return [(config["rule"], *shape), shape]


def span(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
