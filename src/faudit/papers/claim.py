"""A paper's claims, each with the published value, our measurement, and whether the two agree.

A claim is one row of a paper's results. Each of its parts is a number computed from the logs of some experiments:

- ``Part``: the number of an experiment is within a tolerance of the published one;
- ``Between``: the number of an experiment, or the difference to another experiment, lies in an interval;
- ``Order``: the means of several experiments are in the published order.

Our value is the mean over the seeds with a 95 % interval (Student's t); for norms it is the geometric mean with the
range. Unless a part sets its own, the tolerance is ± .015 for accuracies, a factor 3 for norms, and ± 2 epochs for the
first epoch at which a check fires. For Γ and ρ it is twice the paper's standard deviation, or ± .05 if the paper gives
none. Imported runs do not count, and every experiment of a part must have a run. A part with a diverged run deviates.

Every part asks for the seeds and the epochs that each of its experiments has in the paper's recipe. A part with fewer
is partial, whatever its number says.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from faudit.config import command
from faudit.figures.figure import Value
from faudit.figures.table import Series, Table
from faudit.stats import student_interval
from faudit.store.rows import Row
from faudit.store.run import Status

Measure = Callable[[list[Row]], float | None]
TOLERANCES = {"accuracy": 0.015, "norm": 3.0, "epoch": 2.0, "cosine": 0.05, "never": 0.0}
WITHIN = {
    "accuracy": (0.0, 1.0),
    "error": (0.0, 100.0),
    "cosine": (-1.0, 1.0),
    "angle": (0.0, 180.0),
}  # possible values
VERDICTS = ("deviates", "not run", "partial", "reproduced")  # a claim gets the first that one of its parts has
SIGNS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, "≤": operator.le}


@dataclass(frozen=True)
class Reading:
    """An entry at one epoch; at the last row if ``epoch`` is None."""

    value: Value
    epoch: int | None = None
    scale: float = 1.0

    def __call__(self, rows: list[Row]) -> float | None:
        there = rows[-1:] if self.epoch is None else [row for row in rows if row["epoch"] == self.epoch]
        number = self.value(there[0]) if there else None
        return None if number is None else number * self.scale


def last(value: Value, scale: float = 1.0) -> Reading:
    """An entry of the last row."""
    return Reading(value, scale=scale)


def at_epoch(epoch: int, value: Value) -> Reading:
    """An entry of one epoch's row."""
    return Reading(value, epoch)


def fires(check: Callable[[Row], bool]) -> Measure:
    """The first epoch at which a check fires; infinity if it never fires."""
    return lambda rows: next((float(row["epoch"]) for row in rows if check(row)), math.inf)


def dip(value: Value) -> Measure:
    """The epoch at which an entry is smallest; the first one if there are several."""

    def measure(rows: list[Row]) -> float | None:
        found = {float(row["epoch"]): number for row in rows if (number := value(row)) is not None}
        return min(found, key=found.__getitem__, default=None)

    return measure


def full_accuracy(row: Row) -> float | None:
    """The accuracy on the full test set, which is also that of an evaluation buffer of the same size."""
    known, buffer, samples = (row.number(name) for name in ("test_acc", "eval_samples", "test_samples"))
    return row.number("acc_eval") if known is None and buffer is not None and buffer == samples else known


def full_error(row: Row) -> float | None:
    """The error on the full test set, in percent."""
    accuracy = full_accuracy(row)
    return None if accuracy is None else 100.0 * (1.0 - accuracy)


@dataclass(frozen=True)
class Part:
    """One number of a claim. ``experiments`` are pooled; ``kind`` decides how the number is compared and printed."""

    what: str
    experiments: tuple[str, ...]
    measure: Measure
    kind: str  # "accuracy", "error", "nse", "angle", "credit angle", "norm", "epoch", "never", "cosine"
    published: float | None
    spread: float | None = None  # the paper's standard deviation of a cosine
    seeds: tuple[int, ...] | None = None  # only these seeds, if the claim is about one seed
    within: float | None = None  # a tolerance of its own

    def series(self, table: Table) -> list[Series]:
        """Our runs for this part; none unless every experiment has one."""
        found = [
            [one for one in table.series(name) if not one.imported and self._counts(one)] for name in self.experiments
        ]
        return [one for series in found for one in series] if all(found) else []

    def expected(self, table: Table) -> int:
        """The number of runs that the plan has for this part."""
        planned = [seed for name in self.experiments for seed in table.plan.seeds_of(name)]
        return sum(self.seeds is None or seed in self.seeds for seed in planned)

    def _counts(self, one: Series) -> bool:
        return self.seeds is None or one.seed in self.seeds

    @property
    def tolerance(self) -> float:
        if self.within is not None:
            return self.within
        return 2 * self.spread if self.spread is not None else TOLERANCES[self.kind]

    def points(self) -> list[tuple[str, float]]:
        """The published numbers that a figure can show, each with its experiment."""
        return [] if self.published is None else [(name, self.published) for name in self.experiments]

    def measured(self, table: Table) -> dict[str, Any]:
        """The part with our values, their middle and interval, and the verdict."""
        series = self.series(table)
        found = {one.run.name: self.measure(one.rows) for one in series if one.status == Status.DONE}
        values = [value for value in found.values() if value is not None and not math.isnan(value)]
        entry: dict[str, Any] = {
            "what": self.what,
            "kind": self.kind,
            "published": self.published,
            "tolerance": self.tolerance,
            **told(self.experiments, series, values, table=table, expected=self.expected(table)),
        }
        if self.kind == "accuracy":
            buffer = [row for one in series if (row := one.rows[-1].get("acc_eval")) is not None]
            entry["on_buffer"] = statistics.fmean(buffer) if buffer else None
        if not values:
            return {**entry, "ours": None, "low": None, "high": None, "verdict": unmeasured(entry)}
        middle, low, high = interval(values, self.kind, WITHIN.get(self.kind, (-math.inf, math.inf)))
        agree = agrees(self, middle, values) and not entry["diverged"]
        return {**entry, **ours(middle, low, high), "verdict": "reproduced" if agree else "deviates"}


@dataclass(frozen=True)
class Between:
    """A number of one experiment that lies in [low, high]. With ``minus``, the difference to another experiment.

    A difference is taken seed by seed.
    """

    what: str
    experiment: str
    measure: Measure
    kind: str
    low: float
    high: float
    minus: str | None = None
    published: float | None = None

    @property
    def experiments(self) -> tuple[str, ...]:
        return (self.experiment,) if self.minus is None else (self.experiment, self.minus)

    def points(self) -> list[tuple[str, float]]:
        """The published numbers that a figure can show; a difference has no place there."""
        return [] if self.published is None or self.minus else [(self.experiment, self.published)]

    def measured(self, table: Table) -> dict[str, Any]:
        """The number with our values, their mean and interval, and the verdict."""
        series, found = by_seed(self.experiments, self.measure, table=table)
        first, baseline = found[0], found[1] if self.minus else dict.fromkeys(found[0], 0.0)
        values = [number - baseline[seed] for seed, number in first.items() if seed in baseline]
        entry: dict[str, Any] = {
            "what": self.what,
            "kind": self.kind,
            "published": self.published,
            "between": [None if math.isinf(edge) else edge for edge in (self.low, self.high)],
            "minus": self.minus,
            **told(
                self.experiments,
                series,
                values,
                table=table,
                expected=len(common(map(table.plan.seeds_of, self.experiments))),
            ),
        }
        if not values:
            return {**entry, "ours": None, "low": None, "high": None, "verdict": unmeasured(entry)}
        middle, low, high = interval(values, self.kind)
        agree = self.low <= middle <= self.high and not entry["diverged"]
        return {**entry, **ours(middle, low, high), "verdict": "reproduced" if agree else "deviates"}


@dataclass(frozen=True)
class Order:
    """The means of several experiments, the smallest first. ``published`` has the number of each experiment."""

    what: str
    experiments: tuple[str, ...]
    measure: Measure
    kind: str
    published: tuple[float, ...] = ()
    sign: str = "<"

    def points(self) -> list[tuple[str, float]]:
        """The published numbers that a figure can show, each with its experiment."""
        return list(zip(self.experiments, self.published, strict=True)) if self.published else []

    def measured(self, table: Table) -> dict[str, Any]:
        """The mean of each experiment, and whether they are in the published order."""
        series, found = by_seed(self.experiments, self.measure, table=table)
        values = [number for one in found for number in one.values()]
        planned = sum(len(table.plan.seeds_of(name)) for name in self.experiments)
        entry: dict[str, Any] = {
            "what": self.what,
            "kind": self.kind,
            "published": list(self.published),
            "order": self.sign,
            **told(self.experiments, series, values, table=table, expected=planned),
        }
        if not all(found):
            return {**entry, "means": [], "verdict": unmeasured(entry)}
        means = [statistics.fmean(one.values()) for one in found]
        agree = all(SIGNS[self.sign](a, b) for a, b in pairwise(means)) and not entry["diverged"]
        return {**entry, "means": means, "verdict": "reproduced" if agree else "deviates"}


Number = Part | Between | Order


@dataclass(frozen=True)
class Claim:
    """One row of a paper's results."""

    name: str
    published: str
    parts: tuple[Number, ...]

    @property
    def experiments(self) -> list[str]:
        """The experiments of all parts, each once."""
        return list(dict.fromkeys(name for part in self.parts for name in part.experiments))


def judged(claims: Iterable[Claim], table: Table) -> list[dict[str, Any]]:
    """Every claim with our numbers, as JSON values."""
    plan, entries = table.plan, []
    for number, claim in enumerate(claims, start=1):
        parts = [measured(part, table) for part in claim.parts]
        verdicts = {part["verdict"] for part in parts}
        configs = [plan.config(name, seed) for name in claim.experiments for seed in plan.seeds_of(name)]
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


def measured(part: Number, table: Table) -> dict[str, Any]:
    """A part with our numbers and its verdict, which is partial if the runs are fewer or shorter than the recipe's."""
    entry, recipe = part.measured(table), table.plan.recipe
    only = part.seeds if isinstance(part, Part) else None
    seeds = {name: only or recipe.seeds_of(name) for name in part.experiments}
    epochs = {name: recipe.experiment(name).epochs for name in part.experiments}
    entry["asked"] = {"epochs": sorted(set(epochs.values())), "seeds": sorted({len(one) for one in seeds.values()})}
    ended = {name: [one for one in table.series(name) if counts(one)] for name in part.experiments}
    whole = {
        name: [one for one in series if one.seed in seeds[name] and one.config.epochs >= epochs[name]]
        for name, series in ended.items()
    }
    # A difference is one number for each seed that both have. A finished run may lack the row that is asked.
    numbers = len(common(seeds.values())) if isinstance(part, Between) else sum(map(len, seeds.values()))
    enough = all(len(series) >= len(seeds[name]) for name, series in whole.items()) and entry["n"] >= numbers
    counterexample = entry["kind"] == "never" and entry["verdict"] == "deviates"  # one is enough, however few runs
    if all(ended.values()) and not enough and not entry["diverged"] and not counterexample:
        entry["verdict"] = "partial"
    return entry


def common(several: Iterable[tuple[int, ...]]) -> set[int]:
    """The seeds that all of several experiments have."""
    return set.intersection(*map(set, several))


def counts(one: Series) -> bool:
    """Whether a run is a finished one of our own."""
    return not one.imported and one.status == Status.DONE


def by_seed(
    experiments: Sequence[str], measure: Measure, *, table: Table
) -> tuple[list[Series], list[dict[int, float]]]:
    """Our runs, and for each experiment the number of each seed. There are none unless every experiment has a run."""
    series = [[one for one in table.series(name) if not one.imported] for name in experiments]
    if not all(series):
        return [], [{} for _ in experiments]
    read = [{one.seed: measure(one.rows) for one in runs if counts(one)} for runs in series]
    known = [{seed: n for seed, n in one.items() if n is not None and math.isfinite(n)} for one in read]
    return [one for runs in series for one in runs], known


def told(
    experiments: Iterable[str], series: Sequence[Series], values: Sequence[float], *, table: Table, expected: int
) -> dict[str, Any]:
    """The facts about the runs behind a number."""
    wanted = {table.plan.config(name).epochs for name in experiments}
    return {
        "n": len(values),
        "expected": expected,
        "diverged": sum(one.status == Status.FAILED for one in series),
        "shorter": sorted({one.config.epochs for one in series} - wanted),
        "values": [None if math.isinf(value) else value for value in values],
    }


def unmeasured(entry: dict[str, Any]) -> str:
    """The verdict of a part without a value."""
    return "deviates" if entry["diverged"] else "not run"


def ours(middle: float, low: float | None, high: float | None) -> dict[str, float | None]:
    """Our number and its interval as JSON values; null is a number that overflowed, or an edge that does not exist."""
    edges = {"ours": middle, "low": low, "high": high}
    return {name: edge if edge is not None and math.isfinite(edge) else None for name, edge in edges.items()}


def interval(
    values: Sequence[float], kind: str, within: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float | None, float | None]:
    """Middle, low and high: the mean and its 95 % interval (None for one value); for norms and epochs the range."""
    if kind == "norm" and all(0 < value < math.inf for value in values):
        return statistics.geometric_mean(values), min(values), max(values)
    if kind in ("norm", "epoch", "never"):
        return statistics.median(values), min(values), max(values)
    return statistics.fmean(values), *(student_interval(values, within) or (None, None))


def agrees(part: Part, middle: float, values: Sequence[float]) -> bool:
    """Whether our value is within the part's tolerance of the published one."""
    if part.kind == "never":
        return all(math.isinf(value) for value in values)
    assert part.published is not None, "only a part of kind never has no number"
    if part.kind == "norm":
        return 0 < middle < math.inf and abs(math.log(middle / part.published)) <= math.log(part.tolerance)
    return abs(middle - part.published) <= part.tolerance
