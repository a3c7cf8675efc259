"""Scale: does one block make the stream explode? Compares max_l ‖h_{l+1}‖ / ‖h_l‖ at the end with a threshold.

The ratio is per block and not over the whole depth, because a ViT's class token starts very small. A LayerNorm hides an
exploding stream from the loss, but not from this ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_most
from faudit.store.rows import growth


@dataclass(frozen=True)
class Scale(Check):
    """The largest growth of one block."""

    name: ClassVar[str] = "scale"
    reads: ClassVar[tuple[str, ...]] = ("hidden_norms",)
    within: ClassVar[tuple[float, float]] = (0.0, inf)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"growth": (5, 12, 25, 50, 100, 200, 400, 693, 1000)}

    growth: float = 50.0  # fires above

    def find(self, case: Case) -> Finding:
        value, limit = growth(case.last.get("hidden_norms") or []), self.growth
        if value is None:
            return self.finding(NOT_MEASURED, "the hidden norm of some tap was not measured", threshold=limit)
        reason = f"the largest growth of one block is {value:.3g}×, the limit {limit:g}×"
        return self.finding(at_most(value, limit), reason, value=value, threshold=limit)
