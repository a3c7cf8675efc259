"""The look of every figure: venue widths, one colour, dash and marker per rule, axes, legend, and the files.

Lines differ in dash and marker as well as in colour, so that a grey print is readable. The same numbers give the same
bytes: the files contain no date.
"""

from __future__ import annotations

import io
import math
import textwrap
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FixedLocator, LogFormatterMathtext, MaxNLocator, NullFormatter, NullLocator

from faudit.errors import ConfigError
from faudit.figures.figure import Figure
from faudit.registry import unknown
from faudit.rules import RULES
from faudit.store.rows import ENTRIES

Looks = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]  # line → name, how it is drawn
VENUES = {"neurips": (5.5, 5.5), "icml": (3.25, 6.75), "iclr": (5.5, 5.5)}  # inches: one column, the whole text

# (name, colour, dash, marker). Colours of BP, FA and DFA are the paper's.
RULE_LOOKS: dict[str, tuple[str, str, Any, str]] = {
    "bp": ("BP", "#2166ac", "-", "o"),
    "fa": ("FA", "#e08214", "-.", "^"),
    "dfa": ("DFA", "#b2182b", "--", "s"),
    "frozen-dfa": ("frozen blocks (embed by DFA)", "#4d4d4d", ":", "D"),
    "frozen-bp": ("frozen blocks (embed by BP)", "#878787", ":", "v"),
}
PENALTY_LOOKS: dict[float, tuple[str, Any, str]] = {
    1e-4: ("#bf812d", (0, (1, 1)), "v"),
    1e-3: ("#80b1d3", (0, (5, 1)), "P"),
    1e-2: ("#1b7837", "-", "D"),
    1e-1: ("#40004b", "-.", "X"),
}
# Every other rule has the next of these, in the order of the registry.
COLOURS = ("#1b7837", "#762a83", "#01665e", "#8c510a", "#c51b7d", "#5aae61", "#9970ab", "#35978f", "#bf812d", "#de77ae")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SETTINGS: Any = {  # matplotlib types its keys one by one
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same on every machine
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.0,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "pdf.fonttype": 42,  # TrueType, embedded: venues refuse Type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "faudit",
    "figure.dpi": 100,
    "savefig.dpi": 300,
}


@dataclass(frozen=True)
class Style:
    """The look for one venue."""

    venue: str = "neurips"

    def __post_init__(self) -> None:
        if self.venue not in VENUES:
            raise ConfigError(unknown("venue", self.venue, VENUES))

    def drawn(self, figure: Figure, numbers: dict[str, Any]) -> Picture:
        """Draw a figure in this style. The user's own matplotlib settings are ignored."""
        with matplotlib.rc_context(SETTINGS):
            return figure.draw(numbers, self)

    def grid(self, rows: int, columns: int, *, wide: bool, height: float) -> tuple[Picture, list[list[Axes]]]:
        """A picture of the venue's width with its axes. ``height`` is the height of one row in inches."""
        picture = self.canvas(wide=wide, height=height * rows)
        return picture, [list(row) for row in picture.subplots(rows, columns, squeeze=False)]

    def canvas(self, *, wide: bool, height: float) -> Picture:
        """An empty picture of the venue's width."""
        width = VENUES[self.venue][1 if wide else 0]
        picture = Picture(figsize=(width, height + 0.55), layout="constrained")
        FigureCanvasAgg(picture)
        return picture

    def rendered(self, picture: Picture, form: str) -> bytes:
        """The picture as the bytes of a file."""
        nothing: dict[str, dict[str, None]] = {
            "pdf": {"CreationDate": None, "ModDate": None},
            "svg": {"Date": None},
            "png": {},
        }
        out = io.BytesIO()
        with matplotlib.rc_context(SETTINGS):
            picture.savefig(out, format=form, metadata=nothing[form])
        return out.getvalue()


def rule_look(rule: str) -> tuple[str, str, Any, str]:
    """A rule's name in the legend, its colour, dash and marker."""
    if rule in RULE_LOOKS:
        return RULE_LOOKS[rule]
    if rule not in list(RULES):  # an own rule: its name alone, and a look that depends on nothing else
        head, _, name = rule.rpartition(":")
        place = zlib.crc32(rule.encode())
        rule = f"frozen-{name}" if head.startswith("frozen-") else name
    else:
        place = [name for name in RULES if name not in RULE_LOOKS].index(rule)
    taught_by = RULE_LOOKS.get(rule.removeprefix("frozen-"))
    if taught_by and rule.startswith("frozen-"):
        rule = f"frozen blocks (embed by {taught_by[0]})"
    return rule, COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]


def look(line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A line's name in the legend, and its colour, dash and marker."""
    if line["penalty"]:
        colour, dash, marker = PENALTY_LOOKS.get(line["penalty"], ("#000000", "-", "*"))
        name = f"{rule_look(line['rule'])[0]}, λ = {line['penalty']:g}"
    else:
        name, colour, dash, marker = rule_look(line["rule"])
    return name, {"color": colour, "linestyle": dash, "marker": marker}


def draw_panel(ax: Axes, panel: dict[str, Any], *, title: bool = True, label: bool = True, looks: Looks = look) -> None:
    """Draw the lines of a panel with their bands. Markers are few, so that the dash stays visible."""
    if not panel["lines"]:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no runs", ha="center", va="center", transform=ax.transAxes, color="#878787")
        return
    for place, line in enumerate(panel["lines"]):
        name, how = looks(line)
        epochs = line["epochs"]
        every = max(1, len(epochs) // 6)
        start = (place * every) // max(1, len(panel["lines"]))  # so that markers of two lines do not overlap
        ax.plot(
            epochs, line["middle"], label=name, markevery=(min(start, len(epochs) - 1), every), clip_on=False, **how
        )
        banded = [k for k in range(len(epochs)) if line["low"][k] is not None]
        if banded:
            low, high = ([line[edge][k] for k in banded] for edge in ("low", "high"))
            ax.fill_between([epochs[k] for k in banded], low, high, color=how["color"], alpha=0.18, linewidth=0)
    if panel["log"]:
        decades(ax, values_of(panel["lines"]))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, steps=[1, 2, 5, 10]))
    ax.margins(x=0.03)
    if title:
        ax.set_title(panel["title"])
    if label:
        ax.set_ylabel(panel["label"])


def values_of(lines: Iterable[dict[str, Any]]) -> list[float]:
    """All values of the lines and of the edges of their bands."""
    return [v for line in lines for edge in ("middle", "low", "high") for v in line[edge] if v is not None]


def decades(ax: Axes, values: Sequence[float], *, side: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic over whole decades, with at most five labels."""
    if not values or not ax.axison:
        return
    axis, set_limits, set_scale = (
        (ax.yaxis, ax.set_ylim, ax.set_yscale) if side == "y" else (ax.xaxis, ax.set_xlim, ax.set_xscale)
    )
    # The limits are set below: automatic limits of a single level would be one point.
    ax.set_autoscaley_on(False) if side == "y" else ax.set_autoscalex_on(False)
    set_scale("log")
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    step = max(1, math.ceil((high - low) / 4))
    set_limits(10.0**low, 10.0**high)
    axis.set_major_locator(FixedLocator([10.0**k for k in range(low, high + 1, step)]))
    axis.set_major_formatter(LogFormatterMathtext())
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def level(ax: Axes, value: float, name: str, *, dash: Any = ":", band: dict[str, Any] | None = None) -> None:
    """Draw a horizontal line with a name in the legend, and its band if there is one."""
    if not ax.axison:  # a panel without runs
        return
    ax.axhline(value, color="#4d4d4d", linestyle=dash, linewidth=0.9, label=name)
    if band and band["low"] is not None:
        ax.axhspan(band["low"], band["high"], color="#4d4d4d", alpha=0.12, linewidth=0)


def legend(picture: Picture, axes: Iterable[Axes], *, columns: int) -> None:
    """Add one legend for the whole picture above the axes. Each name occurs once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if entries:
        handles, count = list(entries.values()), min(columns, len(entries))
        picture.legend(handles, list(entries), loc="outside upper center", ncols=count)


def footnote(
    picture: Picture,
    numbers: dict[str, Any],
    lines: Sequence[dict[str, Any]],
    *,
    what: str,
    bars: Sequence[dict[str, Any]] = (),
    tail: str = " Gradients: per-sample loss.",
) -> None:
    """Write data, epochs, n, the meaning of the band and ``tail`` under the axes, wrapped to the width."""
    if not lines:
        return
    counts = sorted({count for line in lines for count in line["n"]} | {bar["n"] for bar in bars})
    longest = sorted({line["epochs"][-1] for line in lines})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]}–{counts[-1]}"
    epochs = f"{longest[0]}" if len(longest) == 1 else f"{longest[0]}–{longest[-1]}"
    data = DATA_NAMES.get(numbers["plan"]["data"], numbers["plan"]["data"])
    elsewhere = {line["net"]: line["data"] for line in lines if line["data"] != numbers["plan"]["data"]}
    if len({line["net"] for line in lines}) == 1:  # one net on several datasets
        found = dict.fromkeys(line["data"] for line in lines)
        data = " and ".join(DATA_NAMES.get(name, name) for name in found)
    elif elsewhere:
        named = [f"{NET_NAMES.get(net, net)}: {DATA_NAMES.get(other, other)}" for net, other in elsewhere.items()]
        data += f" ({', '.join(named)})"
    seeds, band = ("seeds", f"; {what.removesuffix('.')}") if counts[-1] > 1 else ("seed", "")
    rehearsal = "Not the paper's recipe: " if numbers["rehearsal"] else ""
    text = f"{rehearsal}{data}, {epochs} epochs, {n} {seeds}{band}.{tail}"
    picture.supxlabel(textwrap.fill(text, int(22 * picture.get_figwidth()), break_on_hyphens=False), fontsize=6)


DATA_NAMES = {
    "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST",
    "teacher": "teacher–student", "teacher-linear": "linear teacher", "teacher-tanh": "tanh teacher",
}  # fmt: skip
NET_NAMES = {"resmlp": "ResMLP", "vit": "ViT-Mini", "student": "StudentNet", "mlp": "MLP", "cnn": "CNN"}
BAND = "line: geometric mean, band: ± 1 s.d. of the logarithm"
BAND_LINEAR = "line: mean, band: ± 1 s.d. (norms: geometric)"


def symbol(entry: str, place: str) -> str:
    """The symbol of an entry at one tap or block, for a label."""
    return f"${ENTRIES[entry].symbol.replace('_l', f'_{place}')}$"


H_L, G_2, G_L = symbol("hidden_norms", "L"), symbol("grad_norms", "2"), symbol("grad_norms", "L")
