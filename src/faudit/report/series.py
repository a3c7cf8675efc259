"""The rows of a run as columns: a short form for the page, with every number rounded to six significant digits.

A column is a list over the logged epochs. An entry with a value for each tap or block has one column for each; a list
of lists is flattened. ``None`` is undefined or not measured. A number that overflowed is text, as in ``rows.jsonl``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from faudit.probes import NESTED
from faudit.store.rows import ENTRIES, Row

DIGITS = 6  # significant digits of every number on the page

Columns = dict[str, list[Any]]


def columns(rows: Sequence[Row]) -> Columns:
    """Every entry that some row holds, by name."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column(name, rows) for name in names}


def column(name: str, rows: Sequence[Row]) -> list[Any]:
    """One entry over the rows: a list of numbers for a scalar, else a list of numbers for each place."""
    entry = ENTRIES.get(name)
    if entry is None or entry.shape == "scalar":
        return [rounded(row.get(name)) for row in rows]
    values = [flat(row.get(name), nested=entry.shape in NESTED) for row in rows]
    width = max(map(len, values), default=0)
    return [[rounded(value[place]) if place < len(value) else None for value in values] for place in range(width)]


def flat(value: Any, *, nested: bool) -> list[Any]:
    """The values of a list, or of a list of lists, one after the other."""
    if value is None:
        return []
    if not nested:
        return list(value)
    inner = max((len(one) for one in value if one is not None), default=0)
    return [one for some in value for one in (some if some is not None else [None] * inner)]


def rounded(value: Any) -> Any:
    """A number with six significant digits; text for one that overflowed; anything else unchanged."""
    if type(value) is not float:
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def rounded_all(document: Any) -> Any:
    """The same for every number of a document."""
    if isinstance(document, Mapping):
        return {name: rounded_all(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [rounded_all(value) for value in document]
    return rounded(document)
