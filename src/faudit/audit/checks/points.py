"""Points: do the trained blocks do better than blocks that never trained, in points of accuracy?

The paper's check of depth utility. A point means less if nearly every sample is already right, so ``depth`` uses the
share of errors removed instead. Both use the same control, which ``depth`` describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import Case, Check, Finding, at_least
from faudit.audit.checks.depth import against_frozen


@dataclass(frozen=True)
class Points(Check):
    """The accuracy minus that of frozen blocks."""

    name: ClassVar[str] = "points"
    reads: ClassVar[tuple[str, ...]] = ("test_acc",)
    within: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"points": (0.0, 0.01, 0.02, 0.03, 0.05)}

    points: float = 0.02  # fires below; a share, so 0.02 is two points

    def find(self, case: Case) -> Finding:
        limit = self.points
        both = against_frozen(self, case, threshold=limit)
        if isinstance(both, Finding):
            return both
        value = both.accuracy - both.frozen
        reason = (
            f"accuracy {both.accuracy:.3f} against {both.frozen:.3f}{both.by_hand} with frozen blocks: "
            f"{100 * value:+.1f} pp, needed {100 * limit:g}"
        )
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)
