"""Chance: is the accuracy above that of a random guess?

The lower end of Wilson's 95 % interval of the accuracy must be above 1/C for C classes. An untrained network passes
most other checks, because its stream does not explode and its gradients are precise. The check does not apply to
outputs that are not classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.stats import wilson_interval


@dataclass(frozen=True)
class Chance(Check):
    """The accuracy, with its interval, against 1/classes."""

    name: ClassVar[str] = "chance"
    reads: ClassVar[tuple[str, ...]] = ("test_acc",)
    within: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def find(self, case: Case) -> Finding:
        if not case.classes:
            return self.finding(NOT_APPLICABLE, "its outputs are not classes")
        chance = 1.0 / case.classes
        if case.accuracy is None:
            return self.finding(NOT_MEASURED, "no accuracy", threshold=chance)
        low, high = wilson_interval(case.accuracy, case.samples)
        reason = (
            f"accuracy {case.accuracy:.3f} on {case.samples} samples ({low:.3f} to {high:.3f}, 95 %), "
            f"chance is {chance:.3f}"
        )
        status = PASSED if low > chance else FIRED
        return self.finding(status, reason, value=case.accuracy, threshold=chance, low=low, high=high)
