"""Compare two groups of runs, paired by seed: the difference with its interval, tests, effect size and n.

For the pairs of seeds i = 1 … n with the values a_i and b_i, the differences are d_i = b_i − a_i, with mean d̄ and
standard deviation s:

    interval     d̄ ± t_{0.975, n−1} · s / √n
    t-test       t = d̄ / (s / √n), with n − 1 degrees of freedom; it takes the differences to be normal
    sign flips   exact: the share of the 2^n sign patterns of d whose sum is as far from 0; its p is at least 2 / 2^n
    d_z          d̄ / s, the effect size of paired values

With three seeds the exact test cannot give a p below 0.25. A smaller p of the t-test then rests on normal differences,
which three values cannot show. The report says so.

The test accuracy at the end is also compared sample by sample (``samples.py``), where the runs kept their answers.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.analysis.runs import Runs
from faudit.analysis.samples import BySample, by_sample
from faudit.audit.utility import aligned, markdown
from faudit.errors import ConfigError, StoreError
from faudit.formats import html_table, printed_difference, probability
from faudit.latex import tabular
from faudit.registry import some_of
from faudit.stats import least_sign_flip_p, sign_flip_p, student_interval, student_p
from faudit.store.index import Overview
from faudit.store.quantity import RANGES, Quantity, quantities
from faudit.store.rows import ENTRIES, TIMINGS, Row
from faudit.store.run import Run, Status
from faudit.store.where import WITHIN_METHOD, named, told, varying

ENOUGH = 0.05  # the exact test is told to be too coarse if it cannot reach this
HEAD = ["", "n", "A", "B", "B − A", "95 % interval", "p (t)", "p (exact)", "d_z"]


@dataclass(frozen=True)
class Compared:
    """One quantity of two groups, paired by seed. A test is None if it is undefined for these values."""

    quantity: Quantity
    pairs: dict[int, tuple[float, float]]  # seed → A, B

    @property
    def differences(self) -> list[float]:
        return [b - a for a, b in self.pairs.values()]

    @property
    def n(self) -> int:
        return len(self.pairs)

    @property
    def mean(self) -> float:
        """The mean of B − A."""
        return statistics.fmean(self.differences)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the differences; None for one pair."""
        return statistics.stdev(self.differences) if self.n > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean difference, cut to possible values; None for one pair or if it is all."""
        least, most = RANGES.get(self.quantity.declared.unit, (-math.inf, math.inf))
        return student_interval(self.differences, (least - most, most - least))

    @property
    def effect(self) -> float | None:
        """d_z, the mean difference in standard deviations of the differences; None if they do not vary."""
        return self.mean / self.deviation if self.deviation else None

    @property
    def t(self) -> float | None:
        """Student's t of the paired differences; None if they do not vary."""
        return None if self.effect is None else self.effect * math.sqrt(self.n)

    @property
    def p_t(self) -> float | None:
        """The two-sided p-value of the paired t-test."""
        return None if self.t is None else student_p(self.t, self.n - 1)

    @property
    def p_exact(self) -> float | None:
        """The exact two-sided p-value by sign flips; None for one pair or for too many."""
        return sign_flip_p(self.differences) if self.n > 1 else None

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval or (None, None)
        return {
            "quantity": str(self.quantity),
            "unit": self.quantity.declared.unit,
            "n": self.n,
            "a": {str(seed): a for seed, (a, _) in self.pairs.items()},
            "b": {str(seed): b for seed, (_, b) in self.pairs.items()},
            "mean_a": statistics.fmean(a for a, _ in self.pairs.values()),
            "mean_b": statistics.fmean(b for _, b in self.pairs.values()),
            "difference": self.mean,
            "low": low,
            "high": high,
            "t": self.t,
            "degrees": self.n - 1,
            "p_t": self.p_t,
            "p_exact": self.p_exact,
            "least_p_exact": least_sign_flip_p(self.n),
            "d_z": self.effect,
        }

    def cells(self) -> list[str]:
        """Its line of the table."""
        a, b = ([pair[side] for pair in self.pairs.values()] for side in (0, 1))
        low_high = "–" if self.interval is None else " to ".join(map(printed_difference, self.interval))
        effect = "–" if self.effect is None else printed_difference(self.effect)
        means = [spread(a), spread(b), printed_difference(self.mean)]
        tests = [probability(self.p_t), probability(self.p_exact)]
        return [str(self.quantity), str(self.n), *means, low_high, *tests, effect]


@dataclass(frozen=True)
class Comparison:
    """Two groups of runs, compared in one or more quantities. It prints as text; ``latex`` and ``markdown`` follow."""

    a: str
    b: str
    differ: dict[str, list[Any]]  # the settings in which A and B differ, each with the values of A and of B
    results: tuple[Compared, ...]
    remarks: tuple[str, ...] = ()
    samples: BySample | None = None  # the test accuracy, sample by sample; None if it was not asked for or not kept

    @property
    def table(self) -> list[list[str]]:
        return [HEAD, *(result.cells() for result in self.results)]

    @property
    def notes(self) -> list[str]:
        """What the table means, and how far its tests can be trusted."""
        seeds = sorted({seed for result in self.results for seed in result.pairs})
        differ = "; ".join(f"{name} {a} and {b}" for name, (a, b) in self.differ.items()) or "no setting"
        notes = [
            f"A: {self.a}. B: {self.b}. They differ in {differ}.",
            f"Paired by seed ({', '.join(map(str, seeds))}); A and B: mean ± s.d.; the interval is Student's. "
            "p (t): paired t-test; p (exact): sign flips; both two-sided. d_z: mean / s.d. of the differences.",
        ]
        n = min(result.n for result in self.results)
        least = least_sign_flip_p(n)
        if n == 1:
            notes.append("With one pair there is no interval and no test.")
        elif least > ENOUGH:
            notes.append(
                f"With n = {n} the exact test cannot give a p below {probability(least)}. "
                "A smaller p of the t-test rests on differences that are normal."
            )
        if any(result.n > 1 and not result.deviation for result in self.results):
            notes.append("Where all differences are equal, the t-test and d_z are undefined.")
        if len(self.results) > 1:
            notes.append(f"{len(self.results)} quantities are tested; the p-values are not corrected for that.")
        return notes

    @property
    def parts(self) -> list[tuple[list[list[str]], list[str]]]:
        """Its tables, each with its notes: over the seeds, and over the samples if their answers are known."""
        over_seeds = (self.table, self.notes)
        return [over_seeds] if self.samples is None else [over_seeds, (self.samples.table, self.samples.notes)]

    def __str__(self) -> str:
        return "\n\n".join("\n".join([*aligned(table), *notes]) for table, notes in self.parts)

    def __repr__(self) -> str:
        return f"Comparison({self.a!r}, {self.b!r}, n={min(result.n for result in self.results)})"

    def _repr_html_(self) -> str:
        found = ""
        for table, notes in self.parts:
            found += html_table(table) + "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        return found + "".join(f"<p>{html.escape(remark)}</p>" for remark in self.remarks)

    def markdown(self) -> str:
        """The tables and their notes in Markdown."""
        escaped = [
            ([[cell.replace("|", "\\|") for cell in line] for line in table], notes) for table, notes in self.parts
        ]
        return "\n\n".join("\n".join([*markdown(table), "", *notes]) for table, notes in escaped)

    def latex(self) -> str:
        """The tables in LaTeX, with their notes as comments."""
        return "\n".join(tabular(table, caption="\n".join(notes)) for table, notes in self.parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "a": self.a,
            "b": self.b,
            "differ": self.differ,
            "results": [result.to_json() for result in self.results],
            "samples": None if self.samples is None else self.samples.to_json(),
            "remarks": list(self.remarks),
        }


def compare(
    a: Runs,
    b: Runs,
    *entries: str,
    layer: int | None = None,
    over: str | None = None,
    at: int | None = None,
    names: tuple[str, str] = ("", ""),
) -> Comparison:
    """Compare entries of two groups of runs, paired by seed: at the end, or at an epoch ``at``.

    The default entry is ``test_acc``; at the end it is compared sample by sample too. ``layer`` or ``over`` choose a
    number of an entry that has one for each layer, as in ``faudit.plot``. Raises if a group is empty, mixes methods or
    has two runs of one seed, or if there is no pair.
    """
    remarks: list[str] = []
    told_names = [name or f"group {letter}" for name, letter in zip(names, "AB", strict=True)]
    groups = [checked(group, name, remarks) for group, name in zip((a, b), told_names, strict=True)]
    if shared := {named(one) for one in groups[0]} & {named(one) for one in groups[1]}:
        raise ConfigError(f"{min(shared)} is in both groups: expected each run in one. Choose groups that differ.")
    seeds = [{entry["config"]["seed"]: entry for entry in group} for group in groups]
    common = sorted(seeds[0].keys() & seeds[1].keys())
    if not common:
        one, other = (told(sorted(group)) for group in seeds)
        raise ConfigError(
            f"no pairs: expected runs with the same seeds, got seeds {one} in {told_names[0]} and {other} in "
            f"{told_names[1]}. Train the missing seeds."
        )
    for group, name in zip(seeds, told_names, strict=True):
        if alone := sorted(group.keys() - set(common)):
            remarks.append(f"{name}: seed {told(alone)} has no partner and is left out")
    rows = [{seed: row_of(group[seed], at) for seed in common} for group in seeds]
    results = []
    for entry in entries or ("test_acc",):
        layers = None if layer is None else [layer]
        found = [row for side in rows for row in side.values()]
        (quantity,) = quantities(entry, layers=layers, over=over, rows=found)
        pairs = {seed: (quantity.of(rows[0][seed]), quantity.of(rows[1][seed])) for seed in common}
        usable = {
            seed: (one, other)
            for seed, (one, other) in pairs.items()
            if one is not None and other is not None and math.isfinite(one) and math.isfinite(other)
        }
        if lost := [seed for seed in common if seed not in usable]:
            remarks.append(f"{quantity}: seed {told(lost)} has no finite value in both groups and is left out")
        if not usable:
            raise ConfigError(
                f"{quantity}: expected a finite value in both runs of a pair, got none. Compare another entry; "
                f"the rows have {some_of(measured(found))}."
            )
        results.append(Compared(quantity, usable))
    is_tested = at is None and any(str(result.quantity) == "test_acc" for result in results)
    samples = by_sample(seeds[0], seeds[1], remarks) if is_tested else None
    differ = differences(*groups)
    for side, name in enumerate(names):
        if not name and differ:
            told_names[side] = ", ".join(f"{setting}={values[side]}" for setting, values in differ.items())
    return Comparison(told_names[0], told_names[1], differ, tuple(results), tuple(remarks), samples)


def checked(group: Runs, name: str, remarks: list[str]) -> list[Overview]:
    """The finished runs of a group; raises if they are not the seeds of one method."""
    done = [entry for entry in group.overviews if entry["status"] == Status.DONE]
    for entry in group.overviews:
        if entry["status"] != Status.DONE:
            remarks.append(f"{name}: {named(entry)} is {entry['status']} and is left out")
    if not done:
        raise ConfigError(f"{name}: expected finished runs, got none in {group.store}. List them with `faudit show`.")
    if mixed := varying(done, besides=WITHIN_METHOD):
        how = "; ".join(f"{setting} {told(values)}" for setting, values in mixed.items())
        raise ConfigError(
            f"{name} mixes methods: expected runs that differ in the seed alone, got {how}. "
            "Add a condition to choose one."
        )
    by_seed: dict[int, str] = {}
    for entry in done:
        seed = entry["config"]["seed"]
        if seed in by_seed:
            raise ConfigError(
                f"{name} has two runs of seed {seed}, {by_seed[seed]} and {named(entry)}: expected one. Name the runs."
            )
        by_seed[seed] = named(entry)
    return done


def measured(rows: Sequence[Row]) -> list[str]:
    """The entries with a number in every row."""
    scalars = [name for name, one in ENTRIES.logged.items() if one.kind == "number" and name not in TIMINGS]
    return [name for name in scalars if all(is_there(row.get(name)) for row in rows)]


def is_there(value: Any) -> bool:
    """Whether an entry has a finite number."""
    values = value if isinstance(value, list) else [value]
    return any(isinstance(one, float) and math.isfinite(one) for one in values)


def differences(a: Sequence[Overview], b: Sequence[Overview]) -> dict[str, list[Any]]:
    """The settings in which two groups differ, with both values; a setting that one side does not read is left out."""
    one, other = a[0]["config"], b[0]["config"]
    shared = [name for name in one if name in other and name not in WITHIN_METHOD]
    return {name: [one[name], other[name]] for name in shared if one[name] != other[name]}


def row_of(entry: Overview, at: int | None) -> Any:
    """The last row of a run, or the row of an epoch."""
    run = Run(Path(entry["run"]))
    if at is None:
        return run.rows()[-1]
    for row in run.rows():
        if row["epoch"] == at:
            return row
    raise StoreError(f"{named(entry)} has no row of epoch {at}: expected an epoch that it logged. Name another --at.")


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation with four significant digits."""
    mean = f"{statistics.fmean(values):.4g}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2g}"
