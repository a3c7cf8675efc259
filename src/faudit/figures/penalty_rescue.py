"""The effect of a penalty: (a) stream and gradient, (b) deep Γ and deep ρ with their controls, (c) accuracy 2 × 2.

Γ and ρ are means over the blocks l ≥ 1. "fresh B" is the null: the credit of newly drawn feedback matrices on the
penalised networks, with the spread of 20 draws. "BP gradient" is the ceiling. The gradient in (a) is measured at the
same tap for both curves. The frozen line in (c) comes from frozen runs of the same length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from faudit.figures.figure import Figure, Numbers, at, deep, draw_spread, final, line, of, panel
from faudit.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from faudit.figures.style import Style

CURVES = ("matched dfa", "matched dfa λ=0.01")
GRID = {"BP": ("matched bp", "matched bp λ=0.01"), "DFA": CURVES}
FROZEN = "matched frozen-dfa"
SIGNALS: dict[str, tuple[str, int | None]] = {  # name → experiment and epoch (None: the end)
    "DFA, epoch 1": ("matched dfa", 1),
    "λ = 0.0001": ("matched dfa λ=0.0001", None),
    "λ = 0.01": ("matched dfa λ=0.01", None),
    "BP gradient": ("matched bp", None),
}


TICKS = {
    "DFA, epoch 1": "DFA\nepoch 1",
    "λ = 0.0001": "$\\lambda=$\n$10^{-4}$",
    "λ = 0.01": "$\\lambda=$\n$10^{-2}$",
    "fresh B": "fresh\nB",
    "BP gradient": "BP\ngradient",
}


class PenaltyRescue(Figure):
    """DFA with and without the penalty: stream and gradient, deep Γ and ρ with null and ceiling, accuracy 2 × 2."""

    experiments = (*GRID["BP"], *GRID["DFA"], "matched dfa λ=0.0001", FROZEN)
    wide: ClassVar[bool] = True

    def numbers(self, table: Table) -> Numbers:
        hidden, gradient = at("hidden_norms", -1), at("grad_norms", 2)
        bars: dict[str, dict[str, Numbers | None]] = {
            name: {symbol: final(table, experiment, deep(symbol), epoch=epoch) for symbol in ("gamma", "rho")}
            for name, (experiment, epoch) in SIGNALS.items()
        }
        bars["fresh B"] = {symbol: null(table, CURVES[1], symbol) for symbol in ("gamma", "rho")}
        return {
            "a": [
                panel("stream", "h_L", [line(table, name, hidden, log=True) for name in CURVES], log=True),
                panel("gradient", "g_2", [line(table, name, gradient, log=True) for name in CURVES], log=True),
            ],
            "b": {name: bars[name] for name in ("DFA, epoch 1", "λ = 0.0001", "λ = 0.01", "fresh B", "BP gradient")},
            "c": {rule: [final(table, name, of("acc_eval")) for name in pair] for rule, pair in GRID.items()},
            "frozen": final(table, FROZEN, of("acc_eval")),
        }

    def draw(self, numbers: Numbers, style: Style) -> Picture:
        from faudit.figures import style as s

        picture = style.canvas(wide=self.wide, height=1.9)
        grid = picture.add_gridspec(2, 3, width_ratios=(1.0, 1.35, 0.85))
        stream, gradient = picture.add_subplot(grid[0, 0]), picture.add_subplot(grid[1, 0])
        signals, accuracy = picture.add_subplot(grid[:, 1]), picture.add_subplot(grid[:, 2])
        for ax, one, label in zip((stream, gradient), numbers["a"], (s.H_L, s.G_2), strict=True):
            s.draw_panel(ax, {**one, "label": label}, title=False)
        stream.tick_params(labelbottom=False)
        gradient.set_xlabel("epoch")
        draw_signals(signals, numbers["b"])
        draw_accuracy(accuracy, numbers)
        for ax, title in (
            (stream, "(a) stream and gradient"), (signals, "(b) deep blocks' credit"), (accuracy, "(c) accuracy"),
        ):  # fmt: skip
            ax.set_title(title)
        s.legend(picture, (stream, signals, accuracy), columns=4)
        what = "mean (norms: geometric) ± 1 s.d.; fresh B: ± 1 s.d. of 20 draws"
        bars = [bar for pair in numbers["b"].values() for bar in pair.values() if bar]
        bars += [bar for pair in numbers["c"].values() for bar in pair if bar]
        s.footnote(picture, numbers, [one for p in numbers["a"] for one in p["lines"]], what=what, bars=bars)
        return picture


def null(table: Table, experiment: str, symbol: str) -> Numbers | None:
    """Deep Γ or ρ under fresh feedback: the mean over the seeds, and the standard deviation of one draw."""
    middle = final(table, experiment, deep(f"{symbol}_null_mean"))
    wide = final(table, experiment, draw_spread(symbol))
    if middle is None or wide is None:
        return None
    edges = {"low": middle["middle"] - wide["middle"], "high": middle["middle"] + wide["middle"]}
    return {**middle, **edges}


def draw_signals(ax: Axes, bars: dict[str, dict[str, Any]]) -> None:
    """Pairs of bars, Γ plain and ρ hatched."""
    looks = {"gamma": ("Γ", "#5e3c99", ""), "rho": ("ρ (float64)", "#b2abd2", "////")}
    for k, (symbol, (name, colour, hatch)) in enumerate(looks.items()):
        there = [(place, bar[symbol]) for place, bar in enumerate(bars.values()) if bar[symbol]]
        where = [place + (k - 0.5) * 0.38 for place, _ in there]
        draw_bars(
            ax, where, [bar for _, bar in there], width=0.36, name=name, colour=[colour] * len(there), hatch=hatch
        )
        for x, (_, bar) in zip(
            where, there, strict=True
        ):  # the ceiling makes the other bars small: write their values above them
            top = max(bar["middle"], bar["high"] or 0.0, 0.0)
            ax.text(x, top + 0.02, f"{bar['middle']:+.2f}", ha="center", va="bottom", fontsize=5.5, rotation=90)
    ax.axhline(0.0, color="#000000", linewidth=0.6)
    ax.set_xticks(range(len(bars)), [TICKS[name] for name in bars])
    ax.grid(axis="x", visible=False)
    ax.set_xlim(-0.6, len(bars) - 0.4)
    ax.set_ylim(top=1.25)


def draw_accuracy(ax: Axes, numbers: Numbers) -> None:
    """BP and DFA in their colours, plain without and hatched with the penalty, against frozen blocks."""
    from faudit.figures.style import RULE_LOOKS, level

    colours = [RULE_LOOKS[rule.lower()][1] for rule in numbers["c"]]
    for k, (name, hatch) in enumerate((("no penalty", ""), ("λ = 0.01", "\\\\\\\\"))):
        there = [(place, pair[k]) for place, pair in enumerate(numbers["c"].values()) if pair[k]]
        where = [place + (k - 0.5) * 0.4 for place, _ in there]
        inside = [colours[place] for place, _ in there]
        draw_bars(ax, where, [bar for _, bar in there], width=0.38, name=None, colour=inside, hatch=hatch)
        ax.bar(
            [0], [0], 0, color="#ffffff", edgecolor="#000000", linewidth=0.5, hatch=hatch, label=name
        )  # white, since the legend entry stands for both rules
    if frozen := numbers["frozen"]:
        level(ax, frozen["middle"], "frozen blocks", band=frozen)
    ax.set_xticks(range(len(numbers["c"])), list(numbers["c"]))
    ax.set_xlim(-0.6, len(numbers["c"]) - 0.4)
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0.0, None)


def draw_bars(
    ax: Axes, where: list[float], bars: list[Numbers], *, width: float, name: str | None, colour: list[str], hatch: str
) -> None:
    """Bars with error bars where there is a spread."""
    heights = [bar["middle"] for bar in bars]
    errors = [bar["high"] - bar["middle"] if bar["high"] is not None else math.nan for bar in bars]
    ax.bar(
        where, heights, width, yerr=errors, label=name or "_", color=colour, hatch=hatch, alpha=0.85,
        edgecolor="#000000", linewidth=0.5, error_kw={"elinewidth": 0.8, "capsize": 1.8},
    )  # fmt: skip
