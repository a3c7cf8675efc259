"""Feedback used: does the credit depend on the feedback at all?

A rule with feedback weights whose credit stays the same when they are drawn afresh is not the rule it says it is: the
spread of Γ over fresh draws is then exactly zero at every block. Not asked of a rule without feedback.
"""

from __future__ import annotations

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
from faudit.audit.protocol import Protocol


class Feedback(Check):
    """The spread of Γ over fresh feedback."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        if case.is_frozen:
            return Finding("feedback", NOT_APPLICABLE, "its blocks are taught nothing")
        if case.null_of != FRESH:
            return Finding("feedback", NOT_APPLICABLE, "no way to draw the feedback afresh was given")
        if "gamma_null_std" not in case.last:
            return Finding("feedback", NOT_MEASURED, "no fresh feedback was drawn")
        spreads = [std for std in case.last["gamma_null_std"] if std is not None]
        if not any(gamma is not None for gamma in case.last["gamma"]):
            return Finding("feedback", UNDECIDED, "no block has a Γ that feedback could move")
        if not spreads:
            return Finding("feedback", NOT_APPLICABLE, "the rule has no feedback weights")
        value = max(spreads)
        reason = f"drawing the feedback afresh moves a block's Γ by {value:.2g} (one standard deviation)"
        return Finding("feedback", PASSED if value > 0 else FIRED, reason, value=value, threshold=0.0)
