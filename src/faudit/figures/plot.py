"""Plots of any declared entry of any runs: over the epochs, at one epoch, or two entries against each other.

Runs are grouped by settings. A line is the mean of its group over the runs, with a band of one standard deviation. At
one epoch, a mark is the mean with Student's 95 % interval, and small rings are the runs. On a logarithmic axis both are
of the logarithm. Every number of a picture is in the JSON file beside it.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from faudit.errors import ConfigError, StoreError
from faudit.figures.figure import Drawn, Numbers, power, spread
from faudit.figures.groups import END, Selected, Source, as_list, selected
from faudit.registry import unknown
from faudit.rules import RULES
from faudit.stats import student_interval
from faudit.store.quantity import Quantity, quantities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

Scale = Literal["auto", "log", "linear"]
SCALES: tuple[Scale, ...] = ("auto", "log", "linear")
MOST_PANELS, COLUMNS = 24, 3
SPAN = 1000.0  # ratio of largest and smallest value from which an axis is logarithmic


def plot(
    *names: str,
    runs: Source = "runs",
    where: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    over: str | None = None,
    at: int | str | None = None,
    scale: Scale = "auto",
    venue: str = "neurips",
) -> Drawn:
    """Plot entries over the epochs or, with ``at``, at one epoch or at the end (``at="end"``). One panel per entry.

    Args:
        names: Entries of a row, as in ``hidden_norms`` and ``gamma``, or ``growth``.
        runs: A run store, or runs.
        where: Conditions such as ``rule=dfa`` and ``epochs>=30``, or names of runs.
        by: Settings whose values make the groups; by default all that differ between the runs.
        layers: Taps, blocks or parts, with one panel each; an empty list means every one.
        over: How the layers are combined instead: ``mean``, ``max``, ``last`` or ``deep`` (mean without the first).
        at: An epoch or ``"end"``; None plots over the epochs.
        scale: ``auto``, ``log`` or ``linear``.
        venue: ``neurips``, ``icml`` or ``iclr``, which decides the width.
    """
    if not names:
        raise ConfigError("nothing to plot: expected an entry such as gamma, got none")
    chosen_runs = selected(runs, where=where, by=by, at=END if at == END else None if at is None else epoch_of(at))
    wanted = [one for name in names for one in quantities(name, layers=layers, over=over, rows=chosen_runs.last_rows)]
    if len(wanted) > MOST_PANELS:
        raise ConfigError(f"expected at most {MOST_PANELS} panels, got {len(wanted)}. Name fewer entries or layers.")
    panel, kind = (lines_panel, "epochs") if at is None else (marks_panel, str(at))
    panels = [panel(chosen_runs, one, scale_of(scale)) for one in wanted]
    numbers = headed(chosen_runs, names, kind=kind, panels=panels)
    return drawn(", ".join(map(str, wanted)), numbers, draw_lines if at is None else draw_marks, venue=venue)


def scatter(
    x: str,
    y: str,
    *,
    runs: Source = "runs",
    where: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    layer: int | None = None,
    over: str | None = None,
    at: int | str = END,
    scale: Scale = "auto",
    venue: str = "neurips",
) -> Drawn:
    """Plot two entries against each other, one point per run, at one epoch or at the end. See ``plot``."""
    found = selected(runs, where=where, by=by, at=END if at == END else epoch_of(at))
    layers = None if layer is None else [layer]
    across, up = (quantities(name, layers=layers, over=over, rows=found.last_rows)[0] for name in (x, y))
    numbers = headed(found, (x, y), kind="scatter", panels=[points_panel(found, across, up, scale_of(scale))])
    return drawn(f"{up} against {across}", numbers, draw_points, venue=venue)


def epoch_of(at: int | str) -> int:
    """The epoch that ``at`` names."""
    if isinstance(at, str) and at.isdecimal():
        return int(at)
    if isinstance(at, str) or at < 0:
        raise ConfigError(f"at: expected an epoch ≥ 0 or end, got {at!r}")
    return at


def scale_of(scale: str) -> Scale:
    found = next((one for one in SCALES if one == scale), None)
    if found is None:
        raise ConfigError(unknown("scale", scale, SCALES))
    return found


def headed(found: Selected, names: Iterable[str], *, kind: str, panels: list[Numbers]) -> Numbers:
    """The numbers of a picture with what a reader must know about the runs."""
    if not any(panel["lines"] for panel in panels):
        raise StoreError(f"no number to plot: expected {', '.join(names)} in the rows, got none that is finite")
    return {
        "plot": list(names),
        "kind": kind,
        "by": list(found.by),
        "where": list(found.where),
        "groups": [group.to_json() for group in found.groups],
        "panels": panels,
        "footnote": footnote(found, panels, kind),
        "remarks": list(found.remarks),
    }


def usable(values: Iterable[float | None], *, log: bool) -> list[float]:
    """The values that an axis can show."""
    return [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not log)]


def is_log(quantity: Quantity, values: Sequence[float], scale: Scale) -> bool:
    """Whether the axis is logarithmic: as asked, or for positive values that span decades."""
    if scale != "auto":
        return scale == "log"
    return bool(values) and min(values) > 0 and (quantity.is_decades or max(values) >= SPAN * min(values))


def tell_left_out(found: Selected, quantity: Quantity, values: Sequence[float | None], *, log: bool) -> None:
    known = [value for value in values if value is not None]
    if lost := len(known) - len(usable(known, log=log)):
        why = "overflowed, or that a logarithmic axis cannot show" if log else "overflowed"
        found.remark(f"{quantity}: {lost} values that {why}, are left out")


def lines_panel(found: Selected, quantity: Quantity, scale: Scale) -> Numbers:
    """One quantity over the epochs: a line with a band for each group."""
    groups = [
        [(row["epoch"], value) for one in group.series for row in one.rows if (value := quantity.of(row)) is not None]
        for group in found.groups
    ]
    every = [value for points in groups for _, value in points]
    log = is_log(quantity, usable(every, log=False), scale)
    tell_left_out(found, quantity, every, log=log)
    lines = []
    for place, points in enumerate(groups):
        met: dict[int, list[float]] = {}
        for epoch, value in points:
            if math.isfinite(value) and (value > 0 or not log):
                met.setdefault(epoch, []).append(math.log10(value) if log else value)
        if met:
            spreads = [spread(met[epoch], log=log) for epoch in sorted(met)]
            columns = {name: [one[name] for one in spreads] for name in ("middle", "low", "high", "n")}
            lines.append({"group": place, "epochs": sorted(met), **columns})
    return {**headline(quantity), "log": log, "lines": lines}


def headline(quantity: Quantity) -> Numbers:
    return {"entry": quantity.entry, "title": str(quantity), "label": quantity.label}


def marks_panel(found: Selected, quantity: Quantity, scale: Scale) -> Numbers:
    """One quantity at one epoch: the mean of each group with its interval, and the value of each run."""
    every = [quantity.of(row) for row in found.last_rows]
    log = is_log(quantity, usable(every, log=False), scale)
    tell_left_out(found, quantity, every, log=log)
    lines = []
    for place, group in enumerate(found.groups):
        by_run = {one.name: value for one in group.series for value in usable([quantity.of(one.rows[-1])], log=log)}
        if by_run:
            values = [math.log10(value) if log else value for value in by_run.values()]
            low, high = student_interval(values) or (None, None)
            back: Callable[[float], float] = power if log else quantity.within
            edges = {name: None if edge is None else back(edge) for name, edge in (("low", low), ("high", high))}
            lines.append({"group": place, "middle": spread(values, log=log)["middle"], **edges, "n": len(values),
                          "by_run": by_run})  # fmt: skip
    return {**headline(quantity), "log": log, "lines": lines}


def points_panel(found: Selected, across: Quantity, up: Quantity, scale: Scale) -> Numbers:
    """Two quantities of each run."""
    pairs = [(across.of(row), up.of(row)) for row in found.last_rows]
    logs = []
    for quantity, values in zip((across, up), zip(*pairs, strict=True), strict=True):
        logs.append(is_log(quantity, usable(values, log=False), scale))
        tell_left_out(found, quantity, values, log=logs[-1])
    lines = []
    for place, group in enumerate(found.groups):
        both = {one.name: (across.of(one.rows[-1]), up.of(one.rows[-1])) for one in group.series}
        points = {
            name: [x, y] for name, (x, y) in both.items() if usable([x], log=logs[0]) and usable([y], log=logs[1])
        }
        if points:
            lines.append({"group": place, "points": points, "n": len(points)})
    axes = {"label": up.label, "label_x": across.label, "log": logs[1], "log_x": logs[0]}
    return {"title": f"{up} against {across}", **axes, "lines": lines}


def footnote(found: Selected, panels: Sequence[Numbers], kind: str) -> str:
    """Under the axes: data, net, epochs, n, and the meaning of marks and bands."""
    from faudit.figures.style import DATA_NAMES, NET_NAMES

    names = {**DATA_NAMES, **NET_NAMES}
    facts = [
        sorted({names.get(value, value) for value in (one.entry["config"][name] for one in found.series)})
        for name in ("data", "net")
    ]
    last = sorted({one.rows[-1]["epoch"] for one in found.series})
    epochs = f"{last[0]}" if len(last) == 1 else f"{last[0]}–{last[-1]}"
    where = f"epoch {epochs}" if kind not in ("epochs", "scatter", END) else f"{epochs} epochs"
    counts = [count for panel in panels for line in panel["lines"] for count in as_list(line["n"])]
    n = f"n = {min(counts)}" if min(counts) == max(counts) else f"n = {min(counts)}–{max(counts)}"
    what = "seed" if all(group.is_over_seeds for group in found.groups) else "run"
    n += f" {what}{'s' if max(counts) > 1 else ''}"
    log = any(panel["log"] for panel in panels)
    meaning = ""
    if kind == "scatter":
        n, meaning = f"{sum(counts)} runs", "; one point per run"
    elif max(counts) > 1 and kind == "epochs":
        meaning = "; line: mean, band: ± 1 s.d." + (" (of the logarithm on a log axis)" if log else "")
    elif max(counts) > 1:
        meaning = (
            "; mark: mean with 95 % interval" + (" (of the logarithm on a log axis)" if log else "") + ", rings: runs"
        )
    return f"{', '.join(' and '.join(fact) for fact in facts)}, {where}, {n}{meaning}".rstrip(".") + "."


def drawn(name: str, numbers: Numbers, draw: Callable[[Numbers, Style], Picture], *, venue: str) -> Drawn:
    import matplotlib

    from faudit.figures.style import SETTINGS, Style

    style = Style(venue)
    with matplotlib.rc_context(SETTINGS):
        picture = draw(numbers, style)
        wide = int(22 * picture.get_figwidth())
        picture.supxlabel(textwrap.fill(numbers["footnote"], wide, break_on_hyphens=False), fontsize=6)
    return Drawn(name, numbers, picture, style)


def looks_of(groups: Sequence[Numbers]) -> list[tuple[str, dict[str, Any]]]:
    """The look of each group: the look of its rule for the first group of a rule, otherwise the next free colour."""
    from faudit.figures.style import COLOURS, DASHES, MARKERS, RULE_LOOKS, rule_look

    rules = [group["rule"] for group in groups]
    of_rules = {rule: rule_look(rule) for rule in rules if rule in RULES} if len(set(rules)) > 1 else {}
    taken = {colour for _, colour, _, _ in of_rules.values()}
    palette = [*(RULE_LOOKS[rule][1] for rule in ("bp", "dfa", "fa")), *COLOURS]
    free = itertools.cycle([colour for colour in palette if colour not in taken] or palette)
    looks = []
    for place, group in enumerate(groups):
        if look := of_rules.pop(group["rule"], None):
            _, colour, dash, marker = look
        else:
            colour, dash = next(free), DASHES[place % len(DASHES)]
            marker = MARKERS[place % len(MARKERS)]
        looks.append((group["name"], {"color": colour, "linestyle": dash, "marker": marker}))
    return looks


def grid(numbers: Numbers, style: Style, *, height: float) -> tuple[Picture, list[Axes]]:
    """A picture with axes for each panel, at most three beside each other."""
    count = len(numbers["panels"])
    columns = min(count, COLUMNS if count != 4 else 2)
    picture, rows = style.grid(math.ceil(count / columns), columns, wide=count > 1, height=height)
    axes = [ax for row in rows for ax in row]
    for ax in axes[count:]:
        ax.set_axis_off()
    return picture, axes[:count]


def draw_lines(numbers: Numbers, style: Style) -> Picture:
    from faudit.figures.style import draw_panel, legend

    looks = looks_of(numbers["groups"])
    picture, axes = grid(numbers, style, height=1.6)
    for ax, panel in zip(axes, numbers["panels"], strict=True):
        draw_panel(ax, panel, looks=lambda line: looks[line["group"]])
        ax.set_xlabel("epoch")
    for entry in {panel["entry"] for panel in numbers["panels"]}:  # layers of one entry are compared with each other
        same = [ax for ax, panel in zip(axes, numbers["panels"], strict=True) if panel["entry"] == entry and ax.axison]
        if len(same) > 1:
            ends = [ax.get_ylim() for ax in same]
            for ax in same:
                ax.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    legend(picture, axes, columns=columns_of(numbers, picture))
    return picture


def columns_of(numbers: Numbers, picture: Picture) -> int:
    """How many names of the legend fit beside each other."""
    longest = max(len(group["name"]) for group in numbers["groups"])
    return max(1, min(4, int(picture.get_figwidth() / (0.45 + 0.062 * longest))))


def draw_marks(numbers: Numbers, style: Style) -> Picture:
    """A line of the picture for each group, so that long names can be read."""
    from faudit.figures.style import decades

    looks = looks_of(numbers["groups"])
    picture, axes = grid(numbers, style, height=0.55 + 0.22 * len(looks))
    first = axes[0].get_gridspec().ncols if len(axes) > 1 else 1  # type: ignore[union-attr]  # axes of a grid
    for place, (ax, panel) in enumerate(zip(axes, numbers["panels"], strict=True)):
        for line in panel["lines"]:
            _, how = looks[line["group"]]
            values, y = list(line["by_run"].values()), line["group"]
            ax.plot(values, [y + 0.22] * len(values), "o", mfc="none", mec=how["color"], ms=2.4, mew=0.6)
            if line["low"] is not None:
                ax.plot([line["low"], line["high"]], [y, y], color=how["color"], linewidth=1.4, solid_capstyle="butt")
            ax.plot(line["middle"], y, color=how["color"], marker=how["marker"], ms=4.0)
        if panel["log"]:
            ends = [[line["middle"], *line["by_run"].values()] for line in panel["lines"]]
            edges = [edge for line in panel["lines"] for edge in (line["low"], line["high"]) if edge is not None]
            decades(ax, within_reach([value for some in ends for value in some], edges), side="x")
        ax.set_ylim(len(looks) - 0.4, -0.6)
        names = [textwrap.fill(name, 22) for name, _ in looks]
        ax.set_yticks(range(len(looks)), names if place % first == 0 else [])
        ax.grid(axis="y", visible=False)
        ax.set_title(panel["title"])
        ax.set_xlabel(panel["label"])
    return picture


def within_reach(values: list[float], edges: list[float]) -> list[float]:
    """Values and the edges of intervals for a log axis; an interval of two runs may span hundreds of decades."""
    low, high = min(values) / SPAN, max(values) * SPAN
    return [*values, *(min(max(edge, low), high) for edge in edges)]


def draw_points(numbers: Numbers, style: Style) -> Picture:
    from faudit.figures.style import decades, legend

    looks = looks_of(numbers["groups"])
    (panel,) = numbers["panels"]
    picture, (ax,) = grid(numbers, style, height=2.4)
    for line in panel["lines"]:
        name, how = looks[line["group"]]
        xs, ys = zip(*line["points"].values(), strict=True)
        look = {"marker": how["marker"], "mfc": "none", "mec": how["color"], "ms": 4.0, "mew": 0.9}
        ax.plot(xs, ys, linestyle="none", label=name, **look)
    points = [point for line in panel["lines"] for point in line["points"].values()]
    if panel["log_x"]:
        decades(ax, [x for x, _ in points], side="x")
    if panel["log"]:
        decades(ax, [y for _, y in points])
    ax.set_xlabel(panel["label_x"])
    ax.set_ylabel(panel["label"])
    legend(picture, [ax], columns=columns_of(numbers, picture))
    return picture
