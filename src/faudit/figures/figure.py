"""The figure contract: logs → numbers → picture. The JSON file beside a picture holds every drawn number.

A figure names the experiments it needs, turns their rows into plain numbers, and draws those numbers. No number is
typed in by hand. On a logarithmic axis the middle is the geometric mean over the seeds, and the band is one standard
deviation of the logarithms. An arithmetic band could reach below zero.
"""

from __future__ import annotations

import base64
import html
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from faudit.errors import ConfigError, StoreError
from faudit.figures import OF_STUDIES
from faudit.figures.table import Table
from faudit.store.files import must_be_file, write_json, write_whole
from faudit.store.rows import Row
from faudit.store.run import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

Numbers = dict[str, Any]
Value = Callable[[Row], float | None]

FORMATS = ("pdf", "svg", "png")
NAMED = 3  # missing runs that a refusal names


class Figure(ABC):
    """One figure. A ``wide`` figure spans the text width of a page; the others span one column.

    ``experiments`` are what it shows; a figure without a list shows everything that the plan has.
    """

    experiments: tuple[str, ...] = ()
    wide: ClassVar[bool] = False

    @abstractmethod
    def numbers(self, table: Table) -> Numbers:
        """Everything that is drawn, as JSON values."""

    @abstractmethod
    def draw(self, numbers: Numbers, style: Style) -> Picture:
        """Draw the picture from the numbers alone."""


@dataclass(frozen=True)
class Drawn:
    """A picture with every number in it. A notebook shows the picture; ``save`` writes it with its numbers."""

    name: str
    numbers: Numbers
    picture: Picture
    style: Style

    @property
    def remarks(self) -> list[str]:
        """What a reader of the picture must know."""
        return list(self.numbers["remarks"])

    def save(self, *paths: Path | str) -> None:
        """Write the picture into each of the paths, in the format of its suffix, and its numbers beside it as JSON."""
        rendered = {path: self.style.rendered(self.picture, suffix(path)) for path in map(Path, paths)}
        beside = {path.with_suffix(".json") for path in rendered}
        for path in (*beside, *rendered):  # check all paths first, so that all files are written or none
            must_be_file(path)
        for path in beside:
            write_json(path, self.numbers)
        for path, contents in rendered.items():
            write_whole(path, contents)

    def __repr__(self) -> str:
        return f"Drawn({self.name!r}; write it with .save('FILE.pdf'))"

    def _repr_html_(self) -> str:
        picture = base64.b64encode(self.style.rendered(self.picture, "png")).decode()
        notes = "".join(f"<br>{html.escape(remark)}" for remark in self.remarks)
        image = f'<img src="data:image/png;base64,{picture}" alt="{html.escape(self.name)}" style="max-width: 100%">'
        return f"<figure>{image}<figcaption>{html.escape(self.name)}{notes}</figcaption></figure>"


def make(name: str, figure: Figure, table: Table, *, style: Style, paths: Iterable[Path]) -> list[str]:
    """Draw a figure into each of the paths, in the format of their suffix, and write its numbers beside them as JSON.

    Returns remarks for the reader. Raises if a run is missing, unless the table is partial.
    """
    drawn(name, figure, table, style=style).save(*paths)
    return table.remarks


def drawn(name: str, figure: Figure, table: Table, *, style: Style) -> Drawn:
    """Draw a figure. Raises if a run is missing, unless the table is partial."""
    shown = figure.experiments or tuple(table.plan.recipe.experiments)
    missing = table.missing(shown)
    if table.watched:
        raise StoreError(
            f"{name} shows runs that faudit trained: expected some in {table.runs}, got {table.watched} watched and no "
            f"other. `faudit plot` draws watched runs; {remedy(name, table)} makes those of the figure."
        )
    if missing and not table.partial:
        raise StoreError(refusal(name, missing, table))
    if len(missing) == sum(len(table.plan.seeds_of(experiment)) for experiment in shown):
        raise StoreError(f"{name}: none of its runs is in {table.runs}. Make them with {remedy(name, table)}.")
    for experiment, seeds in by_experiment(missing).items():
        table.remark(f"missing: {experiment}, seed {', '.join(seeds)}")
    numbers = {**headed(name, figure, table), "remarks": list(table.remarks)}
    return Drawn(name, numbers, style.drawn(figure, numbers), style)


def headed(name: str, figure: Figure, table: Table) -> Numbers:
    """A figure's numbers with the facts of its footnote: the plan, and whether it is a rehearsal."""
    plan = table.plan
    return {"figure": name, "plan": plan.to_json(), "rehearsal": not plan.is_full, **figure.numbers(table)}


def suffix(path: Path) -> str:
    """The format that a file name's suffix asks for."""
    found = path.suffix.lstrip(".").lower()
    if found not in FORMATS:
        raise ConfigError(f"--out: expected a file ending in {', '.join('.' + name for name in FORMATS)}, got {path}")
    return found


def refusal(name: str, missing: dict[str, str], table: Table) -> str:
    """A message: the first missing runs, each with the command that makes it, and the command that makes all."""
    lines = [f"{name} lacks {run}. Make it with: {command}" for run, command in missing.items()][:NAMED]
    makes = f"these and {len(missing) - NAMED} more" if len(missing) > NAMED else "all of them"
    return "\n".join([*lines, f"{remedy(name, table)} makes {makes}; --partial draws what is there."])


def by_experiment(missing: Iterable[str]) -> dict[str, list[str]]:
    """Group the names of missing runs, as ``Table.missing`` writes them: experiment → seeds."""
    grouped: dict[str, list[str]] = {}
    for name in missing:
        experiment, seed = name.rsplit(", seed ", 1)
        grouped.setdefault(experiment, []).append(seed)
    return grouped


def remedy(name: str, table: Table) -> str:
    """The command that makes every run of a figure."""
    if name in OF_STUDIES:
        return f"`faudit sweep {OF_STUDIES[name]} --runs {table.runs}`"
    epochs = f" --epochs {table.plan.epochs}" if table.plan.epochs else ""
    seeds = f" --seeds {' '.join(map(str, table.plan.asked))}" if table.plan.asked else ""
    return f"`faudit reproduce {name} --data {table.plan.data}{epochs}{seeds} --runs {table.runs}`"


def at(entry: str, place: int) -> Value:
    """The value of an entry at one tap or block; None if the row does not have it."""

    def value(row: Row) -> float | None:
        values = row.numbers(entry)
        return values[place] if -len(values) <= place < len(values) else None

    return value


def of(entry: str) -> Value:
    """The value of an entry that is one number."""
    return lambda row: row.number(entry)


def deep(entry: str) -> Value:
    """The mean of an entry over the blocks l ≥ 1. Block 0 is taught nearly what the readout sees and hides the rest."""

    def value(row: Row) -> float | None:
        values = row.numbers(entry)[1:]
        known = [number for number in values if number is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    return value


def draw_spread(entry: str) -> Value:
    """The standard deviation, over fresh draws of the feedback, of the mean of an entry over the blocks l ≥ 1.

    The matrices of a draw are independent, so the variance of the mean over k blocks is Σ var_l / k².
    """

    def value(row: Row) -> float | None:
        stds = row.numbers(f"{entry}_null_std")[1:]
        known = [std for std in stds if std is not None]
        return math.sqrt(sum(std**2 for std in known)) / len(known) if known and len(known) == len(stds) else None

    return value


def line(table: Table, experiment: str, value: Value, *, log: bool) -> Numbers | None:
    """One quantity of an experiment over the epochs: middle, band and n at each epoch; None if it has no run."""
    series = table.series(experiment)
    if not series:
        return None
    met: dict[int, list[float]] = {}
    left_out = 0
    for one in series:
        for row in one.rows:
            number = value(row)
            if number is None:
                continue
            if math.isfinite(number) and (number > 0 or not log):
                met.setdefault(row["epoch"], []).append(math.log10(number) if log else number)
            else:
                left_out += 1
    if left_out:
        what = f"{left_out} values that overflowed, or that a logarithmic axis cannot show"
        table.remark(f"{experiment}: {what}, are left out")
    points = [spread(met[epoch], log=log) for epoch in sorted(met)]
    return {
        "experiment": experiment,
        "net": one.config.net,
        "data": one.config.data,
        "rule": one.config.rule,
        "penalty": getattr(one.config, "penalty", 0.0),
        "seeds": [one.seed for one in series],
        "epochs": sorted(met),
        "middle": [point["middle"] for point in points],
        "low": [point["low"] for point in points],
        "high": [point["high"] for point in points],
        "n": [point["n"] for point in points],
    }


def spread(values: list[float], *, log: bool = False) -> Numbers:
    """The middle, and one standard deviation to either side. A single value has no band."""
    back: Callable[[float], float] = power if log else float
    middle = statistics.fmean(values)
    squares = math.fsum((value - middle) ** 2 for value in values)  # `statistics.stdev` takes ten times as long
    wide = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return {
        "middle": back(middle),
        "low": None if wide is None else back(middle - wide),
        "high": None if wide is None else back(middle + wide),
        "n": len(values),
    }


def power(exponent: float) -> float:
    """10^x, clipped to what a float and an axis can hold. The edge of a band may lie far outside its values."""
    return float(10.0 ** max(-300.0, min(300.0, exponent)))


def final(table: Table, experiment: str, value: Value, *, epoch: int | None = None) -> Numbers | None:
    """One quantity at the end of an experiment, or at an epoch: middle, band, n and the value of each seed."""
    by_seed = {}
    for one in table.series(experiment):
        rows = one.rows if epoch is None else [row for row in one.rows if row["epoch"] == epoch]
        number = value(rows[-1]) if rows else None
        if one.status != Status.DONE and epoch is None:
            table.remark(f"{experiment}: seed {one.seed} did not reach its end, so its last value is left out")
        elif number is not None and math.isfinite(number):
            by_seed[one.seed] = number
    if not by_seed:
        return None
    by_name = {str(seed): number for seed, number in by_seed.items()}
    return {"experiment": experiment, **spread(list(by_seed.values())), "by_seed": by_name}


def panel(title: str, label: str, lines: Iterable[Numbers | None], *, log: bool) -> Numbers:
    """One panel: lines that share their axes."""
    return {"title": title, "label": label, "log": log, "lines": [one for one in lines if one and one["epochs"]]}
