"""What one row of ``rows.jsonl`` holds, and how its numbers become strict JSON and come back.

``null`` is a number that is undefined or was not measured; ``"inf"``, ``"-inf"`` and ``"nan"`` are numbers that
overflowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson

Row = dict[str, Any]

TIMINGS = ("seconds", "probe_seconds")  # the only entries that two identical runs do not share
OVERFLOWED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_line(row: Row) -> str:
    """A row as one line of strict JSON."""
    return json.dumps({name: _encoded(value) for name, value in row.items()}, allow_nan=False) + "\n"


def from_lines(lines: Sequence[bytes]) -> list[Row]:
    """Many rows back, several times as fast as one by one; raises ValueError without saying which is wrong."""
    rows = [orjson.loads(line) for line in lines]
    if not all(type(row) is dict and type(row.get("epoch")) is int for row in rows):
        raise ValueError("not rows")
    whole = b"".join(lines)
    if any(f'"{word}"'.encode() in whole for word in OVERFLOWED):
        return [{name: _decoded(value) for name, value in row.items()} for row in rows]
    return rows


def from_line(line: str) -> Row:
    """A row back from its line; raises ValueError on anything else."""
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("epoch"), int):
        raise ValueError("not a row: expected a JSON object with an epoch")
    return {name: _decoded(value) for name, value in row.items()}


def growth(hidden_norms: Sequence[float | None]) -> float | None:
    """max_l ‖h_{l+1}‖ / ‖h_l‖, the largest growth of one block.

    Infinite where a norm overflowed or grew out of zero; None where nothing can be said (a tap that was not logged, one
    tap only, or all zero).
    """
    known = [norm for norm in hidden_norms if norm is not None]
    if not math.isfinite(sum(known)) and any(not math.isfinite(norm) for norm in known):
        return math.inf
    if len(known) < len(hidden_norms):
        return None
    steps = [after / before if before else math.inf for before, after in pairwise(known) if before or after]
    return max(steps, default=None)


def finite(value: Any) -> Any:
    """A number that overflowed as the word that strict JSON can hold; anything else as it is."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def overflow(row: Row) -> tuple[str, int | None] | None:
    """The first entry of a row that overflowed and, for a per-tap entry, the first tap; None where all is well."""
    for name, value in row.items():
        for place, number in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(number, float) and not math.isfinite(number):
                return name, place if isinstance(value, list) else None
    return None


def _encoded(value: Any) -> Any:
    return [_encoded(entry) for entry in value] if isinstance(value, list) else finite(value)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(entry) for entry in value]
    return OVERFLOWED[value] if isinstance(value, str) and value in OVERFLOWED else value
