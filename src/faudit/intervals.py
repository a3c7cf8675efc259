"""95 % intervals: of a mean over a few seeds, and of a share of samples.  (no torch)"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

NORMAL = 1.96
# 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom; beyond, the normal's.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def student(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's interval of the mean; none for fewer than two values."""
    if len(values) < 2:
        return None
    place = len(values) - 2
    half = (STUDENT[place] if place < len(STUDENT) else NORMAL) * stdev(values) / sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n: sound where the share is 0 or 1, too."""
    square = NORMAL * NORMAL / n
    middle = (share + square / 2) / (1 + square)
    half = sqrt(share * (1 - share) * square + square * square / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)
