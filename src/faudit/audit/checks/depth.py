"""Depth utility: do the trained blocks do better than blocks that never trained?

The run is compared with its control: a run with the same settings and the same rule for the embedding, whose blocks
are frozen. The number is the share of the control's errors that training the blocks removes. It means the same on easy
and on hard data (``points`` is the paper's number). Its 95 % interval comes from the size of the test set, through the
logarithm of the ratio of error rates. It treats the samples of the two networks as independent, so it is too wide. The
check fires if the whole interval is below the threshold. It passes if the estimate reaches the threshold; the reason
then says if the interval contains the threshold. Otherwise it is undecided. It is also undecided in the first epochs,
because a network with less to train learns faster at first. A run without a control is not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, sqrt
from statistics import fmean
from typing import ClassVar

from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED, Case, Check, Finding


@dataclass(frozen=True)
class Depth(Check):
    """The share of the frozen blocks' errors that training the blocks removes."""

    name: ClassVar[str] = "depth"
    reads: ClassVar[tuple[str, ...]] = ("test_acc",)
    within: ClassVar[tuple[float, float]] = (-inf, 1.0)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"errors_removed": (0.0, 0.01, 0.03, 0.05, 0.1, 0.2)}

    errors_removed: float = 0.03  # fires below
    settled: int = 5  # undecided before this epoch

    def find(self, case: Case) -> Finding:
        limit, epoch = self.errors_removed, case.last["epoch"]
        both = against_frozen(self, case, threshold=limit)
        if isinstance(both, Finding):
            return both
        if case.config is not None and epoch < self.settled:
            reason = f"trained for {epoch} epochs, needed {self.settled}"
            return self.finding(UNDECIDED, reason, threshold=limit)
        value, low, high, remark = self.removed(both, case)
        change = f"removes {value:.0%} of" if value >= 0 else f"adds {-value:.0%} to"
        status = FIRED if high < limit else PASSED if value >= limit else UNDECIDED
        unsure = status == PASSED and low < limit
        reason = (
            f"training the blocks {change} the errors that frozen blocks make (95 %: {span(low, high)}; "
            f"accuracy {both.accuracy:.3f} against {both.frozen:.3f}{both.by_hand}{remark}), "
            f"needed: removing {limit:.0%}"
            f"{'; by its estimate alone, because the interval contains the threshold' if unsure else ''}"
        )
        return self.finding(status, reason, value=value, threshold=limit, low=low, high=high)

    def removed(self, both: Against, case: Case) -> tuple[float, float, float, str]:
        """The share of errors removed, its interval, and a remark on the interval."""
        return (*both.removed(case.samples), "")


def span(low: float, high: float) -> str:
    """An interval of the share of errors removed, without signs: errors are removed or added."""
    if low >= 0:
        return f"removing {low:.0%} to {high:.0%}"
    if high < 0:
        return f"adding {-high:.0%} to {-low:.0%}"
    return f"from adding {-low:.0%} to removing {high:.0%}"


@dataclass(frozen=True)
class Against:
    """An accuracy and the mean accuracy of the controls."""

    accuracy: float
    frozen: float
    controls: int
    by_hand: str  # a remark if the caller gave the accuracy of the controls

    def removed(self, samples: int) -> tuple[float, float, float]:
        """The share of errors removed and its interval.

        Half an error is added to each count, so that a perfect score also has an interval.
        """
        total, total_before = samples + 1.0, samples * self.controls + 1.0
        errors, before = (1.0 - self.accuracy) * samples + 0.5, (1.0 - self.frozen) * samples * self.controls + 0.5
        ratio = (errors / total) / (before / total_before)
        spread = 1.96 * sqrt(1 / errors - 1 / total + 1 / before - 1 / total_before)
        return 1 - ratio, 1 - ratio * exp(spread), 1 - ratio * exp(-spread)


def against_frozen(check: Check, case: Case, *, threshold: float) -> Against | Finding:
    """Compare a case with its controls; returns a finding of the check if that is not possible."""
    if not case.trains_blocks:
        return check.finding(NOT_APPLICABLE, "its own blocks are frozen", threshold=threshold)
    if not case.classes:
        reason = "its outputs are not classes, so there is no accuracy to compare with frozen blocks"
        return check.finding(NOT_MEASURED, reason, threshold=threshold)
    controls = case.frozen_accuracies
    if not controls or case.accuracy is None:
        return check.finding(NOT_MEASURED, why_none(case), threshold=threshold)
    by_hand = ", given by hand" if any(control.by_hand for control in case.frozen) else ""
    return Against(case.accuracy, fmean(controls), len(controls), by_hand)


def why_none(case: Case) -> str:
    """Why a case has no control."""
    if case.no_control is not None:
        return f"no control with frozen blocks can be made: {case.no_control}"
    if case.config is None:
        return "no accuracy of a matched model with frozen blocks (frozen=…, --frozen-accuracy)"
    if not case.knows_rule:
        return (
            "no control with frozen blocks was trained: faudit.control(make_model, train, of=w) trains and attaches one"
        )
    return "no matched run with frozen blocks (--with-controls trains it)"
