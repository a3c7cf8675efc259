"""Depth utility: do the trained blocks do better than blocks that never trained?

Against matched frozen runs: the same settings and the same rule for the embedding. In points (``study``), or as the
share of the frozen network's errors that training the blocks removes (``faudit-1``), which means the same on easy and
on hard data. Its 95 % interval comes from the size of the test set, by the logarithm of the ratio of error rates, as if
the two networks had seen different samples, which makes it too wide. It fires when the whole interval is below the
threshold, passes when the estimate is above it (and says so where the interval alone would not have), and is undecided
in between. A run without its control is not measured: that is never a pass. One of a few epochs is not asked, since a
network with less to train learns faster at first.
"""

from __future__ import annotations

from math import exp, sqrt
from statistics import fmean

from faudit.audit.checks.check import (
    FIRED,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASSED,
    UNDECIDED,
    Case,
    Check,
    Finding,
    at_least,
)
from faudit.audit.protocol import Protocol


class Depth(Check):
    """Accuracy against that of frozen blocks."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.points if protocol.points is not None else protocol.errors_removed
        assert limit is not None, "a protocol has one of the two"
        if case.is_frozen:
            return Finding("depth", NOT_APPLICABLE, "its own blocks are frozen", threshold=limit)
        controls, epoch = case.frozen_accuracies, case.last["epoch"]
        if not controls or case.accuracy is None:
            of_model = "no accuracy of a matched model with frozen blocks (frozen=…, --frozen-accuracy)"
            missing = "no matched run with frozen blocks" if case.config else of_model
            return Finding("depth", NOT_MEASURED, missing, threshold=limit)
        if case.config is not None and epoch < protocol.settled:
            reason = f"trained for {epoch} epochs: asked from {protocol.settled} on"
            return Finding("depth", UNDECIDED, reason, threshold=limit)
        frozen = fmean(controls)
        if protocol.points is not None:
            return in_points(case.accuracy, frozen, limit)
        return in_errors(case.accuracy, frozen, limit, samples=case.samples, controls=len(controls))


def in_points(accuracy: float, frozen: float, limit: float) -> Finding:
    value = accuracy - frozen
    points = f"{100 * value:+.1f} pp, needed {100 * limit:g}"
    reason = f"accuracy {accuracy:.3f} against {frozen:.3f} with frozen blocks: {points}"
    return Finding("depth", at_least(value, limit), reason, value=value, threshold=limit)


def in_errors(accuracy: float, frozen: float, limit: float, *, samples: int, controls: int) -> Finding:
    """Half an error is added to each count, so that a perfect score has an interval too."""
    errors, before = (1.0 - accuracy) * samples + 0.5, (1.0 - frozen) * samples * controls + 0.5
    total, total_before = samples + 1.0, samples * controls + 1.0
    ratio = (errors / total) / (before / total_before)
    spread = 1.96 * sqrt(1 / errors - 1 / total + 1 / before - 1 / total_before)
    value, low, high = 1 - ratio, 1 - ratio * exp(spread), 1 - ratio * exp(-spread)
    change = f"removes {value:.0%} of" if value >= 0 else f"adds {-value:.0%} to"
    status = FIRED if high < limit else PASSED if value >= limit else UNDECIDED
    unsure = (
        "; by its estimate alone, since the interval holds the threshold" if status == PASSED and low < limit else ""
    )
    reason = (
        f"training the blocks {change} the errors that frozen blocks make (removed: {low:.0%} to {high:.0%}, 95 %; "
        f"accuracy {accuracy:.3f} against {frozen:.3f}), needed {limit:.0%}{unsure}"
    )
    return Finding("depth", status, reason, value=value, threshold=limit, low=low, high=high)
