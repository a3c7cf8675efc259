"""95 % intervals: of a mean over a few seeds, and of a share of samples.  (no torch)"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

NORMAL = 1.96
# 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom; beyond, the normal's.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


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
