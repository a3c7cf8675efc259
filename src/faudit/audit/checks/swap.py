"""Swap: does the rule's update depend on its feedback?

``feedback`` asks the credit that a rule reports; this check asks the update that trains the network. If other feedback
leaves the direction of every part's update unchanged, the feedback teaches nothing. The readout does not count, because
the true loss teaches it. The check does not apply to a rule without feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED, Case, Check, Finding


@dataclass(frozen=True)
class Swap(Check):
    """How far other feedback turns the update."""

    name: ClassVar[str] = "swap"
    reads: ClassVar[tuple[str, ...]] = ("swap_cosines",)
    within: ClassVar[tuple[float, float]] = (0.0, 2.0)

    turned: float = 1e-6  # fires if 1 − cosine is not larger for any part; equal updates differ by rounding alone

    def find(self, case: Case) -> Finding:
        row, limit = case.last, self.turned
        if not case.trains_blocks:
            return self.finding(NOT_APPLICABLE, "its blocks get no signal", threshold=limit)
        if not case.knows_rule:
            return self.finding(NOT_APPLICABLE, "the rule of a foreign model is not known", threshold=limit)
        if self.lacks_entries(row):
            return self.finding(NOT_MEASURED, "the feedback was not swapped", threshold=limit)
        *below, readout = row["swap_cosines"]
        known = [cosine for cosine in below if cosine is not None]
        if not known and readout is None:
            return self.finding(NOT_APPLICABLE, "the rule has no feedback weights", threshold=limit)
        if not known:
            return self.finding(UNDECIDED, "no part below the readout gets an update", threshold=limit)
        value = 1.0 - min(known)
        reason = f"other feedback turns the update of a part by 1 − cosine = {value:.2g}, needed > {limit:g}"
        return self.finding(PASSED if value > limit else FIRED, reason, value=value, threshold=limit)
