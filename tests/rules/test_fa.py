"""FA: one fixed random matrix between two teaching taps, the formula of its credit, and an exact last block."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from faudit.nets.resmlp import ResMLP
from faudit.rules.fa import FA
from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import fa_credit, oracle_of


def test_there_is_one_matrix_from_each_teaching_tap_to_the_one_before(net_name: str) -> None:
    setup = Setup("fa", net_name)
    widths = setup.net.tap_widths(setup.x)[: setup.net.signals]
    assert {name: tuple(value.shape) for name, value in setup.state.items()} == {
        f"B.{l}": shape for l, shape in enumerate(itertools.pairwise(widths))
    }


def test_every_matrix_follows_the_seed_and_no_two_are_alike(net_name: str) -> None:
    first, other = (Setup("fa", net_name, seed=seed).state for seed in (0, 1))
    assert first and not any(torch.equal(first[name], other[name]) for name in first)
    assert not any(a.shape == b.shape and torch.equal(a, b) for a, b in itertools.combinations(first.values(), 2))


def test_feedback_has_the_spread_of_one_over_the_root_of_the_width() -> None:
    net = ResMLP((1, 8, 8), 10, depth=3, width=400)
    for matrix in FA().init(net, torch.zeros(1, 1, 8, 8), torch.Generator().manual_seed(1)).values():
        assert float(matrix.std()) == pytest.approx(400**-0.5, rel=0.05)
        assert abs(float(matrix.mean())) < 0.1 * 400**-0.5


@pytest.mark.parametrize("net", RESMLPS)
def test_the_credit_is_the_formula(net: str) -> None:
    setup = Setup("fa", net)
    for got, want in zip(setup.credit(), fa_credit(setup, oracle_of(setup)), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("net", RESMLPS)
def test_the_last_block_is_taught_the_exact_gradient(net: str) -> None:
    """By construction; n comes in because FA's gradient is of the mean loss and its local loss is a mean again."""
    eps = 1e9
    fa, bp = Setup("fa", net, clip=1e30, credit_eps=eps), Setup("bp", net)
    got, want = fa.grads(), bp.grads()
    for name in (name for name in want if name.startswith("blocks.2.")):
        torch.testing.assert_close(got[name] * eps * len(fa.x), want[name], rtol=1e-7, atol=1e-12)
    other = "blocks.0.w2.weight"
    assert not torch.allclose(got[other] * eps * len(fa.x), want[other], rtol=1e-2)
