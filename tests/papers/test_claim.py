"""How a claim is judged: the middle of our values, its interval, and a tolerance that does not move."""

from __future__ import annotations

import math

import pytest

from faudit.papers.claim import WITHIN, Part, agrees, interval


@pytest.mark.parametrize(
    ("kind", "published", "ours", "agree"),
    [
        ("accuracy", 0.615, 0.6299, True), ("accuracy", 0.615, 0.6301, False), ("accuracy", 0.615, 0.5999, False),
        ("norm", 200.0, 599.0, True), ("norm", 200.0, 601.0, False), ("norm", 200.0, 67.0, True),
        ("norm", 200.0, 66.0, False), ("norm", 200.0, math.inf, False), ("norm", 200.0, 0.0, False),
        ("epoch", 4.0, 6.0, True), ("epoch", 4.0, 7.0, False), ("epoch", 4.0, math.inf, False),
        ("cosine", 0.151, 0.2, True), ("cosine", 0.151, 0.21, False), ("cosine", 0.0, -0.06, False),
        ("never", None, math.inf, True), ("never", None, 3.0, False),
    ],
)  # fmt: skip
def test_a_number_agrees_within_its_kinds_tolerance(
    kind: str, published: float | None, ours: float, agree: bool
) -> None:
    assert agrees(Part("x", ("resmlp bp",), lambda rows: None, kind, published), ours, [ours]) is agree


def test_a_cosine_agrees_within_twice_the_papers_deviation_where_it_gives_one() -> None:
    part = Part("x", ("resmlp bp",), lambda rows: None, "cosine", 0.080, spread=0.012)
    assert agrees(part, 0.1035, [0.1035]) and not agrees(part, 0.1045, [0.1045])


def test_the_interval_is_students() -> None:
    middle, low, high = interval([0.1, 0.2, 0.3], "accuracy")
    half = 4.302652729749461 * 0.1 / math.sqrt(3)  # t(0.975, 2 degrees of freedom) · s / √n, by hand
    assert [middle, low, high] == pytest.approx([0.2, 0.2 - half, 0.2 + half])
    assert list(interval([10.0, 1000.0], "norm")) == pytest.approx([100.0, 10.0, 1000.0])
    assert interval([0.5], "accuracy") == (0.5, None, None)


def test_an_interval_of_two_seeds_stays_within_what_is_possible() -> None:
    """Student's interval of .95 and .99 is .97 ± .254."""
    middle, low, high = interval([0.95, 0.99], "accuracy", WITHIN["accuracy"])
    assert middle == pytest.approx(0.97) and low == pytest.approx(0.7159, abs=1e-4) and high == 1.0
    assert interval([0.1, 0.9], "accuracy", WITHIN["accuracy"])[1:] == (None, None), "it would hold everything"
