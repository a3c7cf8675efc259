"""A paper's claims, each with the published value, our measurement, and whether the two agree.

A claim is one row of a paper's results. Each of its parts is a number computed from the logs of some experiments. Our
value is the mean over the seeds with a 95 % interval (Student's t); for norms it is the geometric mean with the range.
The tolerance is ± .015 for accuracies, a factor 3 for norms, and ± 2 epochs for the first epoch at which a check fires.
For Γ and ρ it is twice the paper's standard deviation, or ± .05 if the paper gives none. Imported runs do not count,
and every experiment of a part must have a run. A part with a diverged run deviates.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from faudit.config import command
from faudit.figures.table import Series, Table
from faudit.stats import student_interval
from faudit.store.rows import Row
from faudit.store.run import Status

Measure = Callable[[list[Row]], float | None]
TOLERANCES = {"accuracy": 0.015, "norm": 3.0, "epoch": 2.0, "cosine": 0.05, "never": 0.0}
VERDICTS = ("deviates", "not run", "reproduced")  # a claim gets the first of these that one of its parts has


@dataclass(frozen=True)
class Part:
    """One number of a claim. ``experiments`` are pooled; ``kind`` decides how the number is compared and printed."""

    what: str
    experiments: tuple[str, ...]
    measure: Measure
    kind: str  # "accuracy", "norm", "epoch", "never", "cosine"
    published: float | None
    spread: float | None = None  # the paper's standard deviation of a cosine
    seeds: tuple[int, ...] | None = None  # only these seeds, if the claim is about one seed

    def series(self, table: Table) -> list[Series]:
        """Our runs for this part; none unless every experiment has one."""
        found = [
            [one for one in table.series(name) if not one.imported and self._counts(one)] for name in self.experiments
        ]
        return [one for series in found for one in series] if all(found) else []

    def expected(self, table: Table) -> int:
        """The number of runs that the plan has for this part."""
        return len(self.experiments) * sum(self.seeds is None or seed in self.seeds for seed in table.plan.seeds)

    def _counts(self, one: Series) -> bool:
        return self.seeds is None or one.seed in self.seeds

    @property
    def tolerance(self) -> float:
        return 2 * self.spread if self.spread is not None else TOLERANCES[self.kind]


@dataclass(frozen=True)
class Claim:
    """One row of a paper's results."""

    name: str
    published: str
    parts: tuple[Part, ...]

    @property
    def experiments(self) -> list[str]:
        """The experiments of all parts, each once."""
        return list(dict.fromkeys(name for part in self.parts for name in part.experiments))


def last(value: Callable[[Row], float | None], scale: float = 1.0) -> Measure:
    """An entry of the last row."""

    def measure(rows: list[Row]) -> float | None:
        number = value(rows[-1])
        return None if number is None else number * scale

    return measure


def at_epoch(epoch: int, value: Callable[[Row], float | None]) -> Measure:
    """An entry of one epoch's row."""
    return lambda rows: next((value(row) for row in rows if row["epoch"] == epoch), None)


def fires(check: Callable[[Row], bool]) -> Measure:
    """The first epoch at which a check fires; infinity if it never fires."""
    return lambda rows: next((float(row["epoch"]) for row in rows if check(row)), math.inf)


def judged(claims: Iterable[Claim], table: Table) -> list[dict[str, Any]]:
    """Every claim with our numbers, as JSON values."""
    plan, entries = table.plan, []
    for number, claim in enumerate(claims, start=1):
        parts = [measured(part, table) for part in claim.parts]
        verdicts = {part["verdict"] for part in parts}
        configs = [plan.config(name, seed) for name in claim.experiments for seed in plan.seeds]
        entries.append(
            {
                "number": number,
                "claim": claim.name,
                "published": claim.published,
                "parts": parts,
                "verdict": next(verdict for verdict in VERDICTS if verdict in verdicts),
                "commands": [command(config, runs=str(table.runs)) for config in configs],
            }
        )
    return entries


def measured(part: Part, table: Table) -> dict[str, Any]:
    """A part with our values, their middle and interval, and the verdict."""
    series = part.series(table)
    diverged = [one.seed for one in series if one.status == Status.FAILED]
    found = {one.run.name: part.measure(one.rows) for one in series if one.status == Status.DONE}
    values = [value for value in found.values() if value is not None and not math.isnan(value)]
    wanted = {table.plan.config(name).epochs for name in part.experiments}
    entry: dict[str, Any] = {
        "what": part.what,
        "kind": part.kind,
        "published": part.published,
        "tolerance": part.tolerance,
        "n": len(values),
        "expected": part.expected(table),
        "diverged": len(diverged),
        "shorter": sorted({one.config.epochs for one in series} - wanted),
        "values": [None if math.isinf(value) else value for value in values],
    }
    if part.kind == "accuracy":
        buffer = [row for one in series if (row := one.rows[-1].get("acc_eval")) is not None]
        entry["on_buffer"] = statistics.fmean(buffer) if buffer else None
    if not values:
        verdict = "deviates" if diverged else "not run"
        return {**entry, "ours": None, "low": None, "high": None, "verdict": verdict}
    middle, low, high = interval(values, part.kind)
    entry |= {
        name: v if v is not None and math.isfinite(v) else None
        for name, v in (("ours", middle), ("low", low), ("high", high))
    }
    agree = agrees(part, middle, values) and not diverged
    return {**entry, "verdict": "reproduced" if agree else "deviates"}


def interval(values: Sequence[float], kind: str) -> tuple[float, float | None, float | None]:
    """Middle, low and high: the mean and its 95 % interval (None for one value); for norms and epochs the range."""
    if kind == "norm" and all(0 < value < math.inf for value in values):
        return statistics.geometric_mean(values), min(values), max(values)
    if kind in ("norm", "epoch", "never"):
        return statistics.median(values), min(values), max(values)
    return statistics.fmean(values), *(student_interval(values) or (None, None))


def agrees(part: Part, middle: float, values: Sequence[float]) -> bool:
    """Whether our value is within the part's tolerance of the published one."""
    if part.kind == "never":
        return all(math.isinf(value) for value in values)
    assert part.published is not None, "only a part of kind never has no number"
    if part.kind == "norm":
        return 0 < middle < math.inf and abs(math.log(middle / part.published)) <= math.log(part.tolerance)
    return abs(middle - part.published) <= part.tolerance
