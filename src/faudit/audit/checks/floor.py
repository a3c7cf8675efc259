"""Floor: is the true gradient large enough? The paper's check of the reference: ‖∂ℓ/∂h_L‖ per sample against a floor.

The gradient shrinks as a network fits its data, so this check also fires on well-fitted networks. ``reference`` checks
the precision instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_least


@dataclass(frozen=True)
class Floor(Check):
    """The median norm of the gradient at the last tap."""

    name: ClassVar[str] = "floor"
    reads: ClassVar[tuple[str, ...]] = ("grad_norms",)
    within: ClassVar[tuple[float, float]] = (0.0, inf)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"floor": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)}

    floor: float = 1e-4  # fires below; the paper's 1e-7 refers to the mean loss over 1024 samples

    def find(self, case: Case) -> Finding:
        norms, limit = case.last.get("grad_norms") or [None], self.floor
        value: float | None = norms[-1]
        if value is None:
            return self.finding(NOT_MEASURED, "no gradient norm at the last tap", threshold=limit)
        reason = f"the gradient at the last tap is {value:.2g} per sample, the floor {limit:g}"
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)
