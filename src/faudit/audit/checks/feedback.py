"""Feedback used: does the credit depend on the feedback at all?

If new feedback weights leave the credit unchanged, the rule does not use its feedback. The spread of Γ over fresh draws
is then exactly zero at every block. The check does not apply to a rule without feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from faudit.audit.checks.check import (
    FIRED,
    FRESH,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASSED,
    UNDECIDED,
    Case,
    Check,
    Finding,
)


@dataclass(frozen=True)
class Feedback(Check):
    """The spread of Γ over fresh feedback."""

    name: ClassVar[str] = "feedback"
    reads: ClassVar[tuple[str, ...]] = ("gamma", "gamma_null_std")
    within: ClassVar[tuple[float, float]] = (0.0, inf)

    def find(self, case: Case) -> Finding:
        row = case.last
        if not case.trains_blocks:
            return self.finding(NOT_APPLICABLE, "its blocks get no signal")
        if case.null_of is None:
            return self.finding(NOT_APPLICABLE, case.lacks_credit)
        if case.null_of != FRESH:
            return self.finding(NOT_APPLICABLE, "the feedback cannot be drawn again, because fresh=… was not given")
        if self.lacks_entries(row):
            return self.finding(NOT_MEASURED, "no fresh feedback was drawn")
        spreads = [std for std in row["gamma_null_std"] if std is not None]
        if not any(gamma is not None for gamma in row["gamma"]):
            return self.finding(UNDECIDED, "Γ is undefined at every block")
        if not spreads:
            return self.finding(NOT_APPLICABLE, "the rule has no feedback weights")
        value = max(spreads)
        reason = f"drawing the feedback afresh moves a block's Γ by {value:.2g} (one standard deviation)"
        return self.finding(PASSED if value > 0 else FIRED, reason, value=value, threshold=0.0)
