"""Credit turned at random, the null where no fresh feedback can be drawn: as wide as the null of fresh feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from faudit.audit.checks.null import score
from faudit.nets.net import output_error
from faudit.store.rows import Row
from faudit.tensors import cosines
from faudit.watch.copies import inspected
from faudit.watch.reading import ForeignReading, turned
from tests.support.models import CLASSES, MLP_TAPS, WIDTH, batch, mlp


@pytest.mark.parametrize(("samples", "features", "rank"), [(12, 5, 3), (5, 12, 5), (1, 4, 1), (4, 3, 0)])
def test_a_turned_credit_keeps_lengths_and_angles_and_points_elsewhere(samples: int, features: int, rank: int) -> None:
    draw = torch.Generator().manual_seed(0)
    credit = torch.randn(samples, rank, generator=draw) @ torch.randn(rank, features, generator=draw)
    first, second = turned(credit, [torch.Generator().manual_seed(seed) for seed in (1, 2)])
    for other in (first, second):
        assert other.shape == credit.shape and other.dtype == credit.dtype
        torch.testing.assert_close(other @ other.T, credit @ credit.T, rtol=1e-5, atol=1e-5)
    assert rank == 0 or float((first - second).norm()) > 0.1 * float(credit.norm())


def test_the_null_without_fresh_feedback_is_as_wide_as_with_it() -> None:
    """Feedback that has nothing to do with the net: its Γ must lie within the null, as often as chance has it."""
    model, (x, y) = mlp(dtype=torch.float64), batch(128, dtype=torch.float64)
    net, exact = inspected(model, x, patterns=MLP_TAPS, samples=len(y))

    def dfa(generator: torch.Generator) -> Any:
        matrices = torch.randn(3, CLASSES, WIDTH, generator=generator, dtype=torch.float64)
        return lambda taps, logits, y: [output_error(logits, y) @ matrix for matrix in matrices]

    scores: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(100):
        credit = dfa(torch.Generator().manual_seed(1000 + seed))
        for fresh in scores:
            reading = ForeignReading(net, exact, x, y, credit=credit, fresh=dfa if fresh else None, seed=seed)
            gammas = [
                [float(cosines(one, g).nanmean()) for one, g in zip(credits, reading.gradients, strict=True)]
                for credits in (reading.credits, *reading.fresh_credits(20))
            ]
            draws = np.array(gammas[1:])
            row = Row(gamma=gammas[0], gamma_null_draws=draws.T.tolist())
            scores[fresh].append(score(row, [0, 1, 2]))
    for found in scores.values():
        assert 0.8 < np.std(found) < 1.25 and np.mean(np.array(found) > 1.77) < 0.13


def test_taps_that_share_one_feedback_hang_together_under_the_null_too() -> None:
    """The same credit at every tap: its mean over taps is no better known than at one."""
    model, (x, y) = mlp(dtype=torch.float64), batch(64, dtype=torch.float64)
    net, exact = inspected(model, x, patterns=MLP_TAPS, samples=len(y))
    matrix = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    reading = ForeignReading(
        net, exact, x, y, credit=lambda taps, logits, y: [output_error(logits, y) @ matrix for _ in taps]
    )
    for draw in reading.fresh_credits(3):
        assert torch.equal(draw[0], draw[1]) and torch.equal(draw[1], draw[2])
