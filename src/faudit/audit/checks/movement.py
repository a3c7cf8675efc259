"""Movement: has every block been trained at all?

The check reads the smallest angle between a weight matrix of a block and its initial value. A block that is left out of
the update, clipped to zero, dead or saturated has a matrix that does not turn, even if embedding and head train well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least
from faudit.store.rows import Row


@dataclass(frozen=True)
class Movement(Check):
    """The smallest turn of a weight matrix of a block."""

    name: ClassVar[str] = "movement"
    reads: ClassVar[tuple[str, ...]] = ("block_turn",)
    within: ClassVar[tuple[float, float]] = (0.0, 1.0)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"turn": (1e-4, 1e-3, 1e-2, 3e-2, 0.1)}

    turn: float = 1e-3  # fires below: the smallest sin∠ between a matrix of a block and its initial value

    def find(self, case: Case) -> Finding:
        limit = self.turn
        if not case.trains_blocks:
            return self.finding(NOT_APPLICABLE, "its own blocks are frozen", threshold=limit)
        if case.config is None:
            return self.finding(NOT_APPLICABLE, "the initial weights of a foreign model are not known", threshold=limit)
        found = least(case.last)
        if found is None:
            why = (
                "how far its blocks turned was not measured"
                if case.is_watched
                else "where its weights began is not known"
            )
            return self.finding(NOT_MEASURED, why, threshold=limit)
        block, value = found
        reason = f"a matrix of block {block} has turned by sin∠ = {value:.2g} since it began, needed {limit:g}"
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)


def least(row: Row) -> tuple[int, float] | None:
    """The block that turned least, and by how much."""
    turns = row.get("block_turn")
    if not turns or any(turn is None for turn in turns):
        return None
    return min(enumerate(turns), key=lambda pair: float(pair[1]))
