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
    between = {f"B.{l}": shape for l, shape in enumerate(itertools.pairwise(widths))}
    own = {"B.embed": (widths[0], widths[0])} if setup.net.taught_at(0) == 0 else {}
    assert {name: tuple(value.shape) for name, value in setup.state.items()} == between | own
    assert Setup("fa", net_name, embedding_feedback="none").state.keys() == between.keys()


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


def test_the_embedding_is_taught_through_a_matrix_of_its_own_and_no_block_is() -> None:
    setup = Setup("fa", "resmlp")
    before = setup.grads()
    setup.state["B.embed"] = -setup.state["B.embed"]
    after = setup.grads()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"embed.weight", "embed.bias"}
    torch.testing.assert_close(after["embed.weight"], -before["embed.weight"], rtol=0.0, atol=0.0)


def test_without_that_matrix_the_embedding_is_taught_as_block_0_is() -> None:
    own, none = Setup("fa", "resmlp", clip=1e30), Setup("fa", "resmlp", clip=1e30, embedding_feedback="none")
    own.state["B.embed"] = torch.eye(*own.state["B.embed"].shape, dtype=torch.float64)
    for name, gradient in none.grads().items():
        torch.testing.assert_close(own.grads()[name], gradient, rtol=1e-12, atol=1e-15)


def test_the_signal_of_the_embedding_is_what_its_frozen_control_reports() -> None:
    setup, control = Setup("fa", "resmlp"), Setup("frozen-fa", "resmlp")
    signal = setup.credit()[0] @ setup.state["B.embed"].T
    torch.testing.assert_close(control.credit()[0], signal, rtol=1e-12, atol=1e-15)
    assert not any(bool(credit.any()) for credit in control.credit()[1:])
