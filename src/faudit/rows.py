"""What one row of ``rows.jsonl`` holds, and how its numbers become strict JSON and come back.  (no torch)

``null`` is a number that is undefined or was not measured; ``"inf"``, ``"-inf"`` and ``"nan"`` are numbers that
overflowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Row = dict[str, Any]

TIMINGS = ("seconds", "probe_seconds")  # the only entries that two identical runs do not share
OVERFLOWED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_line(row: Row) -> str:
    """A row as one line of strict JSON."""
    return json.dumps(_encoded(row), allow_nan=False) + "\n"


def from_line(line: str) -> Row:
    """A row back from its line; raises ValueError on anything else."""
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("epoch"), int):
        raise ValueError("not a row: expected a JSON object with an epoch")
    return {name: _decoded(value) for name, value in row.items()}


def growth(hidden_norms: Sequence[float]) -> float | None:
    """max_l ‖h_{l+1}‖ / ‖h_l‖, the largest growth of one block; None where a tap is zero or not finite."""
    if len(hidden_norms) < 2 or not all(math.isfinite(norm) for norm in hidden_norms) or 0.0 in hidden_norms[:-1]:
        return None
    return max(after / before for before, after in pairwise(hidden_norms))


def overflow(row: Row) -> tuple[str, int | None] | None:
    """The first entry of a row that overflowed and, for a per-tap entry, the first tap; None where all is well."""
    for name, value in row.items():
        for place, number in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(number, float) and not math.isfinite(number):
                return name, place if isinstance(value, list) else None
    return None


def _encoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _encoded(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_encoded(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(entry) for entry in value]
    return OVERFLOWED[value] if isinstance(value, str) and value in OVERFLOWED else value
