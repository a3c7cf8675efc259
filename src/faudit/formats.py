"""Numbers and tables as text: this module alone decides how many digits are shown.

A dash stands for a number that was not measured or is undefined. A table is a list of lines of cells, the head first.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence
from typing import Any


def share(value: Any) -> str:
    """A share with four decimals: 0.6090."""
    return f"{value:.4f}" if isinstance(value, float) else "–"


def size(value: Any) -> str:
    """A number with three significant digits: 1.23e+04."""
    return "–" if value is None else f"{float(value):.3g}"


def times(value: float | str | None) -> str:
    """A growth: 50.1×."""
    return "–" if value is None else f"{float(value):.3g}×"


def signed(value: float | None) -> str:
    """A cosine with its sign and three decimals: +0.380."""
    return "–" if value is None else f"{value:+.3f}"


def gammas(values: list[float | None] | None) -> str:
    """Cosines on one line, two decimals each, in columns of equal width."""
    return " ".join("  –  " if value is None else f"{float(value):+.2f}" for value in values or [])


def printed_share(value: float) -> str:
    """A share as papers print it, with three decimals and no zero before the point: .609."""
    return f"{value:.3f}".replace("0.", ".", 1)


def printed_cosine(value: float) -> str:
    """A cosine as papers print it, with its sign and no zero before the point: −.008."""
    return f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")


def printed_percent(value: float) -> str:
    """Percent points with two decimals: 1.48 %."""
    return f"{value:.2f} %".replace("-", "−")


def printed_angle(value: float) -> str:
    """Degrees with one decimal: 29.3°."""
    return f"{value:.1f}°"


def printed_size(value: float) -> str:
    """A number as papers print it: three digits from 0.1 to 1000, otherwise two digits and an exponent."""
    return f"{value:.3g}" if 0.1 <= value < 1000 else exponential(value)


def short(value: float) -> str:
    """A number with two significant digits, as written by hand: 1.3, 120, 2.2e4."""
    if 100 <= value < 1000:
        return f"{value:.0f}"
    return f"{value:.2g}" if 0.01 <= value < 100 else exponential(value)


def exponential(value: float) -> str:
    """Two significant digits and an exponent without padding: 4.8e8."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def mean_and_deviation(values: Sequence[float], form: str) -> str:
    """A single value, or mean ± standard deviation; ``form`` is a format such as ``.3f``."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form.lstrip('+')}}"


def least_and_most(values: Sequence[float], unit: str = "") -> str:
    """A single value, or the smallest and the largest: values over many decades have no useful mean."""
    low, high = f"{short(min(values))}{unit}", f"{short(max(values))}{unit}"
    return low if low == high else f"{low} … {high}"


def probability(value: float | None) -> str:
    """A p-value with two significant digits: 0.25, 0.031, < 0.0001."""
    if value is None:
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def printed_difference(value: float) -> str:
    """A difference with its sign and three significant digits: +0.0123, −4.5."""
    return f"{value:+.3g}".replace("-", "−")


def html_table(table: Sequence[Sequence[str]]) -> str:
    """A table in HTML; every cell is shown as text."""
    cells = [[html.escape(cell) for cell in line] for line in table]
    head, *lines = ("".join(f"<{tag}>{cell}</{tag}>" for cell in line)
                    for tag, line in zip(["th", *["td"] * len(cells)], cells, strict=False))  # fmt: skip
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
