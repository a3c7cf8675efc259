"""95 % intervals of a mean over a few seeds and of a share of samples, and tests of a difference.

A(t | ν) is the probability that Student's t with ν degrees of freedom lies within ± t. For an integer ν it is a finite
sum (Abramowitz & Stegun 26.7.3 and 26.7.4). With θ = arctan(t / √ν):

    ν odd:   A = 2/π · (θ + sin θ · (cos θ + 2/3 · cos³θ + … + (2·4···(ν−3)) / (3·5···(ν−2)) · cos^(ν−2) θ))
    ν even:  A = sin θ · (1 + 1/2 · cos²θ + … + (1·3···(ν−3)) / (2·4···(ν−2)) · cos^(ν−2) θ)

The quantile is the t with A(t | ν) = 0.95.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import atan, comb, cos, exp, fsum, inf, lgamma, log, log1p, pi, sin, sqrt
from statistics import NormalDist, fmean, stdev

LEVEL = 0.95
MOST_FLIPPED = 16  # values whose signs are flipped in all ways: 2^16 sums
NORMAL = 1.96  # used by Wilson's interval; two decimals, as in the committed tables


def student_interval(values: Sequence[float], within: tuple[float, float] = (-inf, inf)) -> tuple[float, float] | None:
    """Student's interval of the mean, cut to the values that are possible; None for fewer than two values.

    The interval of two or three seeds is wide. It is None too if it covers every possible value: it then says nothing.
    """
    if len(values) < 2:
        return None
    half = student_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    low, high = fmean(values) - half, fmean(values) + half
    least, most = within
    if low <= least and high >= most:
        return None
    return max(low, least), min(high, most)


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n; it stays within [0, 1] and is also valid for a share of 0 or 1."""
    square = NORMAL * NORMAL / n
    middle = (share + square / 2) / (1 + square)
    half = sqrt(share * (1 - share) * square + square * square / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


@cache
def student_quantile(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t.

    Newton's method, started at the normal quantile, which is below every t. A(t | ν) is concave for t > 0, so each step
    increases t and none passes the root. The first step that does not increase t has reached full precision.
    """
    below, t = 0.0, NormalDist().inv_cdf((1 + LEVEL) / 2)
    while t > below:
        below, t = t, t + (LEVEL - student_within(t, degrees)) / (2 * student_density(t, degrees))
    return below


def student_within(t: float, degrees: int) -> float:
    """A(t | ν): the probability that |T| ≤ t, t ≥ 0."""
    angle = atan(t / sqrt(degrees))
    square = cos(angle) ** 2
    odd = degrees % 2
    term, terms = cos(angle) if odd else 1.0, list[float]()
    for power in range(odd, degrees - 1, 2):  # power of the cosine
        terms.append(term)
        term *= square * (power + 1) / (power + 2)
    if odd:
        return 2 / pi * (angle + sin(angle) * fsum(terms))
    return sin(angle) * fsum(terms)


def student_density(t: float, degrees: int) -> float:
    """The density of Student's t."""
    size = lgamma((degrees + 1) / 2) - lgamma(degrees / 2) - log(degrees * pi) / 2
    return exp(size - (degrees + 1) / 2 * log1p(t * t / degrees))


def student_p(t: float, degrees: int) -> float:
    """The two-sided p-value of Student's t: the probability of |T| ≥ |t|."""
    return max(0.0, 1.0 - student_within(abs(t), degrees))


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """The exact two-sided p-value of a mean difference by flipping signs; None for too many values.

    If neither side is better, each difference is as likely as its negative. The p-value is the share of the 2^n sign
    patterns whose sum is at least as far from 0. Two patterns always are, so p ≥ 2 / 2^n. A difference of 0 has no
    sign, and both of its patterns count.
    """
    if not 1 <= len(differences) <= MOST_FLIPPED:
        return None
    scale = max(map(abs, differences)) or 1.0
    sizes = [value / scale for value in differences]
    reached = abs(fsum(sizes)) - 1e-12 * len(sizes)  # sums that differ only by rounding are equal
    flipped = (abs(fsum(map(float.__mul__, sizes, signs))) for signs in product((1.0, -1.0), repeat=len(sizes)))
    return sum(one >= reached for one in flipped) / float(1 << len(sizes))


def mcnemar_p(a_alone: int, b_alone: int) -> float:
    """The exact two-sided p-value of McNemar's test, from the samples that one of two networks alone answers rightly.

    If neither is better, each such sample falls to either with probability ½. The p-value is twice the binomial
    probability of at most the smaller count, and at most 1. Whole numbers are summed, so it has no rounding but one.
    """
    both = a_alone + b_alone
    term, total = 1, 0
    for k in range(min(a_alone, b_alone) + 1):
        total += term
        term = term * (both - k) // (k + 1)
    return min(1.0, 2 * total / (1 << both))


def least_sign_flip_p(n: int) -> float:
    """The smallest p-value that ``sign_flip_p`` can give for n values."""
    return min(1.0, 2.0 / float(1 << n))


def median_interval(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """At least 95 % interval of the median, without assumptions on the distribution; none for fewer than six values.

    Between the k-th smallest and the k-th largest value, for the largest k with P(X < k) ≤ .025, X ~ Bin(n, ½).
    """
    n, below, k = len(values), 0.0, 0
    while (below := below + comb(n, k) / 2**n) <= 0.025:
        k += 1
    return (sorted(values)[k - 1], sorted(values)[n - k]) if k else (None, None)
