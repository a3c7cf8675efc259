"""Per-sample maths against hand-computed values, at the sizes where libraries go wrong."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from faudit.tensors import cosines, mean_defined, median, norms


def test_norms_are_per_sample_l2() -> None:
    """`tensor.norm(-1)` would be an L₋₁ norm of everything."""
    assert norms(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).tolist() == [5.0, 2.0]
    assert norms(torch.ones(2, 3, 4)).tolist() == pytest.approx([math.sqrt(12)] * 2)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_norms_and_cosines_hold_at_any_size(scale: float) -> None:
    a, b = torch.tensor([[3.0, 4.0]]) * scale, torch.tensor([[4.0, 3.0]]) * scale
    assert float(norms(a)) == pytest.approx(5 * scale, rel=1e-6)
    assert float(cosines(a, b)) == pytest.approx(0.96, rel=1e-6)


def test_the_library_cosine_is_wrong_where_ours_is_right() -> None:
    """If torch mends its clamp, this test says so and ours may go."""
    a, b = torch.tensor([[3e-9, 4e-9]]), torch.tensor([[4e-9, 3e-9]])
    assert float(F.cosine_similarity(a, b)) != pytest.approx(0.96, rel=1e-2)
    assert float(cosines(a, b)) == pytest.approx(0.96, rel=1e-6)


def test_a_cosine_with_nothing_is_undefined_and_counted() -> None:
    a = torch.tensor([[0.0, 0.0], [1.0, 0.0], [math.inf, 0.0], [1.0, 1.0]])
    b = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    values = cosines(a, b)
    assert values.isnan().tolist() == [True, False, True, True]
    assert mean_defined(values) == (1.0, 3)
    assert mean_defined(values[:1]) == (None, 1)


def test_median_of_even_and_odd_counts() -> None:
    assert median(torch.tensor([3.0, 1.0, 2.0])) == 2.0
    assert median(torch.tensor([4.0, 1.0, 2.0, 3.0])) == 2.5
    assert median(torch.tensor([math.inf, 1.0, math.inf])) == math.inf
    assert median(torch.tensor([math.inf, math.inf])) == math.inf
    assert math.isnan(median(torch.tensor([math.nan, 1.0, 2.0])))
