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


def extended(known: Columns, rows: Sequence[Row]) -> Columns | None:
    """The columns with more rows; None if the rows have an entry or a place that the columns lack."""
    if any(name not in known for row in rows for name in row):
        return None
    found = {}
    for name, own in known.items():
        more = column(name, rows, width=len(own))
        if is_scalar(name):
            found[name] = own + more
        elif len(more) > len(own):
            return None
        else:
            found[name] = [one + new for one, new in zip(own, more, strict=True)]
    return found


def tail(known: Columns, start: int) -> Columns:
    """The columns without their first rows."""
    return {name: own[start:] if is_scalar(name) else [one[start:] for one in own] for name, own in known.items()}


def is_scalar(name: str) -> bool:
    """Whether an entry is one number in a row, so that it has one column and not one for each place."""
    entry = ENTRIES.get(name)
    return entry is None or entry.shape == "scalar"


def column(name: str, rows: Sequence[Row], *, width: int = 0) -> list[Any]:
    """One entry over the rows: a list of numbers for a scalar, else one for each place, at least ``width`` of them."""
    entry = ENTRIES.get(name)
    if entry is None or is_scalar(name):
        return [rounded(row.get(name)) for row in rows]
    values = [flat(row.get(name), nested=entry.shape in NESTED) for row in rows]
    width = max(width, *map(len, values), 0)
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
