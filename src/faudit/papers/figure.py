"""The figure of a paper that has none of its own: what its claims read, over the epochs, with the published numbers.

Each kind of number has a panel: accuracy, errors, and the angle between feedback and forward weights. A line is one
experiment. Hollow marks are published numbers, with the tolerance of the claim as a bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from faudit.figures.figure import Figure, Numbers, line, panel
from faudit.figures.table import Table
from faudit.papers.claim import Claim, Number, Part, Reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

# kind → label
PANELS = {"accuracy": "test accuracy", "error": "test error (%)", "angle": "angle of B to W (°)",
          "credit angle": "angle of credit to gradient (°)", "nse": "normalised squared error"}  # fmt: skip
LOGARITHMIC = ("error", "nse")
BAND = "line: mean (errors: geometric), band: ± 1 s.d."


class Trajectories(Figure):
    """The numbers of a paper's claims over the epochs."""

    wide: ClassVar[bool] = True

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._parts = list(drawable(claims))
        self.experiments = tuple(dict.fromkeys(name for part, _ in self._parts for name in part.experiments))

    def numbers(self, table: Table) -> Numbers:
        kinds = [kind for kind in PANELS if any(part.kind == kind for part, _ in self._parts)]
        return {"panels": [self._panel(kind, table) for kind in kinds]}

    def _panel(self, kind: str, table: Table) -> Numbers:
        parts = [(part, reading) for part, reading in self._parts if part.kind == kind]
        values = {name: reading.value for part, reading in parts for name in part.experiments}
        lines = [line(table, name, value, log=kind in LOGARITHMIC) for name, value in values.items()]
        points = [point for part, reading in parts for point in published(part, reading, table)]
        return {**panel(kind, PANELS[kind], lines, log=kind in LOGARITHMIC), "points": points}

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures.style import draw_panel, footnote, legend

        panels = numbers["panels"]
        lines = [one for each in panels for one in each["lines"]]
        looks = looks_of(lines)
        picture, axes = style.grid(1, len(panels), wide=self.wide, height=2.0)
        for ax, one in zip(axes[0], panels, strict=True):
            draw_panel(ax, one, title=False, looks=lambda drawn: looks[drawn["experiment"]])
            ax.set_xlabel("epoch")
            for point in one["points"]:
                if point["experiment"] in looks and ax.axison:
                    _, how = looks[point["experiment"]]
                    mark = {"fmt": how["marker"], "color": how["color"], "mfc": "white", "ms": 4.5, "zorder": 3}
                    bar = {"yerr": point["tolerance"], "elinewidth": 0.8, "capsize": 1.5}
                    ax.errorbar(point["epoch"], point["value"], **bar, **mark, clip_on=False)
        legend(picture, axes[0], columns=4)
        footnote(picture, numbers, lines, what=BAND, tail=" Hollow marks: published, ± tolerance.")
        return picture


def drawable(claims: Iterable[Claim]) -> Iterator[tuple[Number, Reading]]:
    """The parts of claims that read one entry, which can be drawn over the epochs."""
    for claim in claims:
        for part in claim.parts:
            if part.kind in PANELS and isinstance(part.measure, Reading):
                yield part, part.measure


def published(part: Number, reading: Reading, table: Table) -> Iterator[dict[str, Any]]:
    """The published numbers of a part with their epochs. Numbers without an epoch are of the end of the paper's run."""
    for name, value in part.points():
        epoch = table.plan.recipe.experiment(name).epochs if reading.epoch is None else reading.epoch
        tolerance = part.tolerance if isinstance(part, Part) else None
        yield {"experiment": name, "epoch": epoch, "value": value, "tolerance": tolerance}


def looks_of(lines: Iterable[dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The look of each experiment: the colour of its rule, and a dash and marker of its own among those of the rule."""
    from faudit.figures.style import DASHES, MARKERS, look

    found: dict[str, tuple[str, dict[str, Any]]] = {}
    met: dict[str, int] = {}
    for one in lines:
        if one["experiment"] not in found:
            place = met[one["rule"]] = met.get(one["rule"], -1) + 1
            _, how = look({**one, "penalty": 0.0})
            own = {"linestyle": DASHES[place % len(DASHES)], "marker": MARKERS[place % len(MARKERS)]} if place else {}
            found[one["experiment"]] = one["experiment"], {**how, **own}
    return found
