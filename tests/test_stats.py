"""Intervals: Student's quantiles against closed forms, published values and an integral; Wilson's by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from faudit.stats import (
    median_interval,
    student_density,
    student_interval,
    student_quantile,
    student_within,
    wilson_interval,
)


def test_the_quantile_has_a_closed_form_for_one_and_for_two_degrees_of_freedom() -> None:
    assert student_quantile(1) == pytest.approx(math.tan(0.95 * math.pi / 2), rel=1e-14)
    assert student_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-14)


@pytest.mark.parametrize(
    ("degrees", "published"),
    [
        (1, 12.7062047364), (2, 4.3026527297), (3, 3.1824463053), (4, 2.7764451052), (10, 2.2281388520),
        (30, 2.0422724563), (31, 2.0395134464), (100, 1.9839715185), (1000, 1.9623390808),
    ],
)  # fmt: skip
def test_the_quantile_is_the_published_one(degrees: int, published: float) -> None:
    assert student_quantile(degrees) == pytest.approx(published, abs=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 29, 30, 31, 77, 500, 1001])
def test_the_density_has_the_level_between_the_quantiles(degrees: int) -> None:
    """Simpson's rule over the density in numpy, a computation that knows nothing of the finite sum."""
    t, width = np.linspace(0.0, student_quantile(degrees), 20_001, retstep=True)
    size = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    density = np.exp(size - (degrees + 1) / 2 * np.log1p(t**2 / degrees))
    weights = np.ones_like(t)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    assert 2 * width / 3 * float(weights @ density) == pytest.approx(0.95, abs=1e-10)
    assert student_density(1.3, degrees) == pytest.approx(np.interp(1.3, t, density), rel=1e-6)


def test_the_probability_starts_at_nothing_and_ends_at_everything() -> None:
    for degrees in range(1, 60):
        within = [student_within(t, degrees) for t in (0.0, 0.5, 1.0, 2.0, 10.0, 1e9)]
        assert within == sorted(within) and within[0] == 0.0 and within[-1] == pytest.approx(1.0, abs=1e-8)


def test_the_quantile_falls_with_every_value_towards_the_normal_one() -> None:
    quantiles = [student_quantile(degrees) for degrees in range(1, 200)]
    normal = NormalDist().inv_cdf(0.975)
    assert all(one > other for one, other in pairwise(quantiles))
    assert quantiles[-1] > normal and student_quantile(100_000) == pytest.approx(normal, rel=2e-5)


def test_the_interval_of_a_mean_by_hand() -> None:
    assert student_interval([]) is None and student_interval([1.0]) is None
    half = math.tan(0.95 * math.pi / 2)  # s = √2, n = 2: s / √n = 1
    assert student_interval([1.0, 3.0]) == pytest.approx((2 - half, 2 + half))
    assert student_interval([0.25] * 5) == (0.25, 0.25)


def test_the_interval_of_a_share_by_hand() -> None:
    low, high = wilson_interval(0.0, 39)
    assert low == 0.0 and high == pytest.approx(3.8416 / (39 + 3.8416), rel=1e-4)
    middle, half = 0.5, 1.96 * math.sqrt(0.25 / 100 + 3.8416 / 40_000) / 1.038416
    assert wilson_interval(0.5, 100) == pytest.approx((middle - half, middle + half))


@pytest.mark.parametrize("n", [1, 2, 7, 360, 10**9])
def test_the_interval_of_a_share_holds_the_share_and_stays_between_nothing_and_everything(n: int) -> None:
    for right in {0, 1, n // 2, n - 1, n}:
        low, high = wilson_interval(right / n, n)
        assert 0.0 <= low <= right / n <= high <= 1.0 and low < high
        mirrored = wilson_interval(1 - right / n, n)
        assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_an_interval_stays_within_what_is_possible() -> None:
    values = [0.97, 0.99]
    assert student_interval(values)[1] > 1  # type: ignore[index]  # two values have an interval
    low, high = student_interval(values, (0.0, 1.0)) or (0.0, 0.0)
    assert (low, high) == (student_interval(values)[0], 1.0)  # type: ignore[index]
    assert student_interval([-0.9, 0.8], (-1.0, 1.0)) is None, "it covers every cosine"
    assert student_interval([1.0, 3.0], (0.0, math.inf)) == pytest.approx((0.0, 2 + student_quantile(1)))
    assert student_interval([0.5, 0.5], (0.5, 0.5)) is None and student_interval([0.5, 0.5], (0.0, 1.0)) == (0.5, 0.5)


def test_the_interval_of_a_median_has_the_tabled_ranks_and_covers() -> None:
    for n, rank in ((6, 1), (9, 2), (15, 4), (20, 6), (40, 14)):  # of the sign test, two-sided 5 %
        assert median_interval(list(range(1, n + 1))[::-1]) == (rank, n + 1 - rank)
    assert median_interval([1.0] * 5) == (None, None)
    draws = np.random.default_rng(0).exponential(size=(4000, 15))
    covered = [low <= math.log(2) <= high for low, high in map(median_interval, draws.tolist())]  # type: ignore[operator]
    assert 0.95 < np.mean(covered) < 0.98  # 1 − 2 P(Bin(15, ½) ≤ 3) = .965
