"""Stability: a label for the kind of failure. Near 1, every batch has the same mean gradient direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_most


@dataclass(frozen=True)
class Stability(Check):
    """Mean pairwise cosine between the mean gradients of disjoint batches."""

    name: ClassVar[str] = "stability"
    reads: ClassVar[tuple[str, ...]] = ("stability",)
    within: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    stability: float = 0.30  # fires above

    def find(self, case: Case) -> Finding:
        limit, value = self.stability, case.last.get("stability")
        if value is None:
            return self.finding(NOT_MEASURED, "not measured", threshold=limit)
        reason = f"the mean gradients of disjoint batches have cosine {value:.2f}, labelled above {limit:g}"
        return self.finding(at_most(value, limit), reason, value=value, threshold=limit)
