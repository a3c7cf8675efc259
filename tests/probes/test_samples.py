"""Own samples: the mean and spread of Γ over all pairings, counted one by one."""

from __future__ import annotations

from itertools import permutations
from statistics import fmean, pstdev

import pytest
import torch
from torch.nn.functional import cosine_similarity

from faudit.probes import samples
from faudit.probes.samples import Samples, paired
from tests.support.nets import Setup


def by_hand(credits: torch.Tensor, gradients: torch.Tensor) -> tuple[float, float]:
    """Every permutation, one after another."""
    means = [
        float(cosine_similarity(credits, gradients[list(order)], dim=1).mean())
        for order in permutations(range(len(credits)))
    ]
    return fmean(means), pstdev(means)


def test_mean_and_spread_are_those_of_all_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    credits, gradients = (torch.randn(6, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    gradients = gradients + 1.0  # a common direction, so that the mean is not zero
    assert paired(credits, gradients) == pytest.approx(by_hand(credits, gradients), rel=1e-12)
    monkeypatch.setattr(samples, "CHUNK", 4)
    assert paired(credits, gradients) == pytest.approx(by_hand(credits, gradients), rel=1e-12)


def test_a_sample_without_credit_or_gradient_is_left_out() -> None:
    generator = torch.Generator().manual_seed(4)
    credits, gradients = (torch.randn(6, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    credits[1], gradients[4] = 0.0, 0.0
    kept = [0, 2, 3, 5]
    assert paired(credits, gradients) == pytest.approx(by_hand(credits[kept], gradients[kept]), rel=1e-12)
    assert paired(credits[:1], gradients[:1]) == (None, None)


def test_the_exact_gradient_stands_far_above_other_samples_and_a_confused_one_does_not() -> None:
    setup = Setup("bp", "resmlp")
    row = Samples().measure(setup.reading())
    assert all(mean < 1.0 - 3 * std for mean, std in zip(row["gamma_others"], row["gamma_others_std"], strict=True))
