"""The atlas: every rule on every net and dataset of the study ``atlas``: accuracy against BP, deep Γ, verdict.

A cell is one rule on one net with one dataset, over its seeds. It shows three things: the accuracy minus BP's on the
same net, in points and paired by seed; the mean Γ of the blocks l ≥ 1; and the verdict. BP's own cells show its
accuracy. Verdicts come from the measurements that ``faudit audit`` kept with the runs, so drawing needs no weights. A
method has the worst verdict of its seeds.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from faudit.audit.audit import Audited, ControlIndex, judged_again
from faudit.audit.checks.check import FIRED, INVALID, NOT_MEASURED, UNDECIDED
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.audit.protocol import DEFAULT, protocol
from faudit.figures.figure import Figure, Numbers, Value, deep, final, of, spread
from faudit.figures.table import Table
from faudit.rules import RULES, control_name
from faudit.store.run import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

REFERENCE = "bp"
NOT_AUDITED = "not audited"
GLYPHS = {TRUSTWORTHY: "✓", WALK_BACK: "✗", INCONCLUSIVE: "?", NOT_AUDITED: "·"}
# Points lost against BP, and the colour of what is at most so far below: one hue from light to dark.
SHADES = ((0.5, "#ffffff"), (2.0, "#fee8d3"), (10.0, "#fdcb9b"), (30.0, "#fda762"), (100.0, "#f07f3c"))
HEIGHT = 0.265  # inches of a row


class Atlas(Figure):
    """Every rule on every net: accuracy against BP, deep Γ, verdict."""

    wide: ClassVar[bool] = True

    def numbers(self, table: Table) -> Numbers:
        found = list(map(table.plan.config, table.plan.recipe.experiments))
        rules = [name for name in RULES if name not in RULES.controls and any(name == config.rule for config in found)]
        nets = list(dict.fromkeys(config.net for config in found))
        datasets = list(dict.fromkeys(config.data for config in found))
        index = ControlIndex(table.runs)
        cells = [
            cell(table, data=data, net=net, rule=rule, index=index)
            for data in datasets
            for net in nets
            for rule in rules
        ]
        epochs = {f"{config.data} {config.net}": config.epochs for config in found}
        return {
            "protocol": DEFAULT,
            "datasets": datasets,
            "nets": nets,
            "rules": rules,
            "epochs": epochs,
            "cells": cells,
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from matplotlib.patches import Patch

        rules, nets = numbers["rules"], numbers["nets"]
        picture = style.canvas(wide=self.wide, height=HEIGHT * len(rules) + 0.55)
        axes = picture.subplots(1, len(numbers["datasets"]), squeeze=False, sharey=True)[0]
        for ax, data in zip(axes, numbers["datasets"], strict=True):
            frame(ax, data, nets=nets, rules=rules)
            for one in numbers["cells"]:
                if one["data"] == data:
                    draw_cell(ax, one, column=nets.index(one["net"]), row=rules.index(one["rule"]))
        edges = [edge for edge, _ in SHADES][:-1]
        between = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        names = [f"at most {edges[0]:g}", *between, f"more than {edges[-1]:g}"]
        handles = [Patch(facecolor=shade, edgecolor="#878787", linewidth=0.5) for _, shade in SHADES]
        head = {"title": "points of accuracy below BP", "title_fontsize": 6.5, "fontsize": 6.5}
        picture.legend(handles, names, loc="outside upper center", ncols=len(names), handlelength=1.4, **head)
        picture.supxlabel(footnote(numbers, wide=picture.get_figwidth()), fontsize=6)
        return picture


def cell(table: Table, *, data: str, net: str, rule: str, index: ControlIndex) -> Numbers:
    """The numbers of one rule on one net; ``applies`` is false if the study leaves the pair out."""
    name, reference, control = (f"{data} {net} {one}" for one in (rule, REFERENCE, control_name(rule)))
    head = {"data": data, "net": net, "rule": rule}
    if name not in table.plan.recipe.experiments:
        return {**head, "applies": False}
    accuracy, bp = final(table, name, of("test_acc")), final(table, reference, of("test_acc"))
    judged = {one.seed: judged_again(one.run, protocol(DEFAULT), beside=index) for one in table.series(name)}
    diverged = [one.seed for one in table.series(name) if one.status == Status.FAILED]
    return {
        **head,
        "applies": True,
        "accuracy": accuracy,
        "frozen": final(table, control, of("test_acc")) if control in table.plan.recipe.experiments else None,
        "difference": paired(accuracy, bp),
        "gamma": final(table, name, deep("gamma")),
        "null": of_audits(judged.values(), deep("gamma_null_mean")),
        "diverged": diverged,
        **verdict_of(judged, diverged=diverged),
    }


def paired(own: Numbers | None, reference: Numbers | None) -> Numbers | None:
    """The difference of two accuracies in points, seed by seed; None without a common seed."""
    if own is None or reference is None:
        return None
    common = [seed for seed in own["by_seed"] if seed in reference["by_seed"]]
    by_seed = {seed: 100.0 * (own["by_seed"][seed] - reference["by_seed"][seed]) for seed in common}
    return {**spread(list(by_seed.values())), "by_seed": by_seed} if by_seed else None


def of_audits(judged: Iterable[Audited | None], value: Value) -> Numbers | None:
    """A number of the last row with the measurements of the audit, over the seeds."""
    found = [number for one in judged if one and (number := value(one.case.last)) is not None]
    return spread(found) if found else None


def verdict_of(judged: dict[int, Audited | None], *, diverged: list[int]) -> Numbers:
    """The worst verdict of the seeds, how many seeds have each, and the checks behind it with their counts."""
    words = {seed: one.verdict.verdict if one else NOT_AUDITED for seed, one in judged.items()}
    words |= dict.fromkeys(diverged, WALK_BACK)  # it has no weights to measure: that it diverged is reason enough
    worst = next((word for word in (WALK_BACK, NOT_AUDITED, INCONCLUSIVE) if word in words.values()), TRUSTWORTHY)
    found = [finding for one in judged.values() if one for finding in one.verdict.findings]
    statuses = (FIRED,) if worst == WALK_BACK else (NOT_MEASURED, UNDECIDED, INVALID)
    decisive = [finding for finding in found if finding.status in statuses]
    reasons = Counter(finding.check for finding in decisive) + Counter({"diverged": len(diverged)})
    return {
        "verdict": worst if words else NOT_AUDITED,
        "verdicts": dict(Counter(words.values())),
        "reasons": dict(reasons.most_common()),
        "reason": next((finding.reason for finding in decisive if finding.check == reasons.most_common(1)[0][0]), ""),
    }


def frame(ax: Axes, data: str, *, nets: list[str], rules: list[str]) -> None:
    """The empty table of one dataset: nets as columns, rules as rows."""
    from faudit.figures.style import DATA_NAMES, NET_NAMES, rule_look

    ax.set_xlim(0, len(nets))
    ax.set_ylim(len(rules), 0)
    ax.grid(False)
    ax.xaxis.tick_top()
    ax.set_xticks([k + 0.5 for k in range(len(nets))], [NET_NAMES.get(net, net) for net in nets])
    ax.set_yticks([k + 0.5 for k in range(len(rules))], [rule_look(rule)[0] for rule in rules])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_title(DATA_NAMES.get(data, data), pad=4)


def draw_cell(ax: Axes, one: dict[str, Any], *, column: int, row: int) -> None:
    """One cell: its shade, the difference to BP over deep Γ, and the sign of the verdict."""
    from matplotlib.patches import Rectangle

    edge: dict[str, Any] = {"edgecolor": "#bdbdbd", "linewidth": 0.5}
    if not one["applies"]:
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor="#f0f0f0", hatch="////", **edge))
        return
    own, difference, gamma = one["accuracy"], one["difference"], one["gamma"]
    lost = 0.0 if difference is None else -difference["middle"]
    shade = next((shade for limit, shade in SHADES if lost <= limit), SHADES[-1][1])
    ax.add_patch(Rectangle((column, row), 1, 1, facecolor=shade if own else "#ffffff", **edge))
    top = "no runs" if own is None else points(difference)
    if own and one["rule"] == REFERENCE:
        top = points({key: None if own[key] is None else 100.0 * own[key] for key in ("middle", "low")}, sign="")
    ax.text(column + 0.06, row + 0.31, top, ha="left", va="center", fontsize=6)
    aligned = "–" if gamma is None else f"{gamma['middle']:+.2f}".replace("-", "−").replace("0.", ".", 1)
    ax.text(column + 0.06, row + 0.73, f"Γ {aligned}", ha="left", va="center", fontsize=6, color="#4d4d4d")
    bold = "bold" if one["verdict"] == TRUSTWORTHY else "normal"
    ax.text(column + 0.87, row + 0.5, GLYPHS[one["verdict"]], ha="center", va="center", fontsize=8, fontweight=bold)


def points(value: dict[str, Any] | None, *, sign: str = "+") -> str:
    """Points of accuracy with their standard deviation."""
    if value is None:
        return "–"
    deviation = "" if value["low"] is None else f" ± {value['middle'] - value['low']:.1f}"
    return f"{value['middle']:{sign}.1f}{deviation}".replace("-", "−")


def footnote(numbers: Numbers, *, wide: float) -> str:
    """What a cell shows, n, and what the signs mean."""
    there = [one for one in numbers["cells"] if one["applies"] and one["accuracy"]]
    counts = sorted({one["accuracy"]["n"] for one in there})
    n = f"n = {counts[0]}" if len(set(counts)) == 1 else f"n = {counts[0]}–{counts[-1]}"
    signs = ", ".join(
        f"{glyph} {word}" for word, glyph in GLYPHS.items() if any(one["verdict"] == word for one in there)
    )
    text = (
        f"Each cell: test accuracy minus BP's in points (BP: its accuracy in %), mean ± s.d. over {n} seeds; Γ, the "
        f"mean of the deep blocks; the verdict of {numbers['protocol']} ({signs}; the worst of the seeds). Hatched: "
        "the rule cannot train this net."
    )
    return textwrap.fill(text, int(22 * wide), break_on_hyphens=False)
