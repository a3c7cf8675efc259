"""One number of a row for a plot or a comparison: a declared entry, at one layer or combined over the layers.

A layer is a tap, a block or a part, as the entry declares. Its axis label comes from the declaration too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from faudit.errors import ConfigError
from faudit.probes import NESTED, Entry
from faudit.registry import unknown
from faudit.store.rows import ENTRIES, Row, growth

# Numbers that are computed from an entry of the row.
DERIVED: dict[str, tuple[Entry, Callable[[Row], float | None]]] = {
    "growth": (
        Entry("growth", "scalar", "Largest growth of one block, max ‖h_{l+1}‖ / ‖h_l‖.", unit="ratio"),
        lambda row: growth(row.numbers("hidden_norms")),
    ),
}
LAYERS = {"taps": "tap", "blocks": "block", "parts": "part", "feedback": "feedback matrix"}  # shape → one layer
# How the numbers of the layers are combined: name → (words for a label, function of the numbers).
OVER: dict[str, tuple[str, Callable[[Sequence[float]], float | None]]] = {
    "mean": ("mean over {}s", lambda values: statistics.fmean(values)),
    "max": ("largest over {}s", lambda values: max(values)),
    "last": ("last {}", lambda values: values[-1]),
    "deep": ("mean over {}s from 1", lambda values: statistics.fmean(values[1:]) if len(values) > 1 else None),
}
DECADES = ("L2 norm", "Frobenius norm", "ratio")  # units whose values span decades
RANGES = {
    "accuracy": (0.0, 1.0),
    "share": (0.0, 1.0),
    "p": (0.0, 1.0),
    "cosine": (-1.0, 1.0),
    "correlation": (-1.0, 1.0),
}


@dataclass(frozen=True)
class Quantity:
    """One number of a row. An entry with one number per layer has either ``layer`` or ``over``."""

    entry: str
    layer: int | None = None
    over: str | None = None

    def __str__(self) -> str:
        if self.layer is not None:
            return f"{self.entry}[{self.layer}]"
        return f"{self.entry} ({self.over})" if self.over else self.entry

    @property
    def declared(self) -> Entry:
        return DERIVED[self.entry][0] if self.entry in DERIVED else ENTRIES[self.entry]

    @property
    def is_decades(self) -> bool:
        """Whether its values usually span decades."""
        return self.declared.unit in DECADES

    def within(self, value: float) -> float:
        """A value, or the nearest one that its unit can have."""
        low, high = RANGES.get(self.declared.unit, (-math.inf, math.inf))
        return min(max(value, low), high)

    def of(self, row: Row) -> float | None:
        """Its value in a row; None if it was not measured, is undefined, or the network has no such layer."""
        if self.entry in DERIVED:
            return DERIVED[self.entry][1](row)
        if self.declared.shape == "scalar":
            return as_float(row.number(self.entry))
        values = row.numbers(self.entry)
        if self.layer is not None:
            return as_float(values[self.layer]) if -len(values) <= self.layer < len(values) else None
        numbers = [float(value) for value in values if value is not None]
        if not numbers or len(numbers) < len(values):  # a mean over some of the layers would be another quantity
            return None
        return OVER[self.over or "mean"][1](numbers)

    @property
    def label(self) -> str:
        """The axis label: the symbol or the name of the entry, its layer or how layers are combined, and its unit."""
        declared = self.declared
        unit = f" ({declared.unit})" if declared.unit else ""
        if declared.shape == "scalar":
            return f"{declared.name}{unit}"
        if self.layer is not None:
            return f"{symbol(declared, str(self.layer)) or f'{declared.name}[{self.layer}]'}{unit}"
        if self.over == "last" and declared.symbol:
            return f"{symbol(declared, 'L' if declared.shape == 'taps' else 'L-1')}{unit}"
        words = OVER[self.over or "mean"][0].format(LAYERS[declared.shape])
        return f"{words.replace('matrixs', 'matrices')}\nof {symbol(declared, 'l') or declared.name}{unit}"


def as_float(value: Any) -> float | None:
    return None if value is None else float(value)


def symbol(entry: Entry, place: str) -> str:
    """The symbol of an entry at one layer, for a label; empty if it declares none."""
    return f"${entry.symbol.replace('_l', f'_{{{place}}}')}$" if entry.symbol else ""


def quantities(
    entry: str, *, layers: Sequence[int] | None = None, over: str | None = None, rows: Sequence[Row] = ()
) -> list[Quantity]:
    """The quantities of an entry: one per layer, or one over all layers.

    An empty ``layers`` means every layer of the rows. Without ``layers`` and ``over``, an entry with one number per tap
    is read at the last tap, and another entry is averaged.
    """
    if entry not in DERIVED and (entry not in ENTRIES or ENTRIES[entry].kind == "text" or entry == "epoch"):
        numbers = [name for name, one in ENTRIES.logged.items() if name != "epoch" and one.kind != "text"]
        raise ConfigError(unknown("entry", entry, [*numbers, *DERIVED]))
    declared = Quantity(entry).declared
    if declared.shape in NESTED:
        raise ConfigError(
            f"{entry}: expected an entry with one number per layer, got one with several. "
            "Read it from `faudit export --format csv`."
        )
    if declared.shape == "scalar":
        return [Quantity(entry)]
    if layers is not None and over is not None:
        raise ConfigError(f"{entry}: expected layers or a way to combine them, got both. Leave one out.")
    if over is not None and over not in OVER:
        raise ConfigError(unknown("way to combine layers", over, OVER))
    if layers is None:
        return [Quantity(entry, over=over or ("last" if declared.shape == "taps" else "mean"))]
    most = max((len(row.numbers(entry)) for row in rows), default=0)
    if out := [layer for layer in layers if most and not -most <= layer < most]:
        raise ConfigError(f"{entry}: expected a {LAYERS[declared.shape]} from 0 to {most - 1}, got {out[0]}")
    return [Quantity(entry, layer) for layer in (layers or range(most))]
