"""DFA: one fixed random matrix per teaching tap, the formula of its credit, and the limit in which it is BP."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from faudit.nets.net import part
from faudit.nets.resmlp import ResMLP
from faudit.rules.dfa import DFA
from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import dfa_credit, oracle_of


def test_there_is_one_matrix_from_the_classes_to_each_teaching_tap(net_name: str) -> None:
    setup = Setup("dfa", net_name)
    widths = setup.net.tap_widths(setup.x)[: setup.net.signals]
    assert {name: tuple(value.shape) for name, value in setup.state.items()} == {
        f"B.{l}": (width, setup.net.classes) for l, width in enumerate(widths)
    }


def test_every_matrix_follows_the_seed_and_no_two_are_alike(net_name: str) -> None:
    first, other = (Setup("dfa", net_name, seed=seed).state for seed in (0, 1))
    assert not any(torch.equal(first[name], other[name]) for name in first)
    assert not any(torch.equal(a[: len(b)], b[: len(a)]) for a, b in itertools.combinations(first.values(), 2))


def test_feedback_has_the_spread_of_one_over_the_root_of_the_classes() -> None:
    net = ResMLP((1, 8, 8), 10, depth=3, width=400)
    for matrix in DFA().init(net, torch.zeros(1, 1, 8, 8), torch.Generator().manual_seed(1)).values():
        assert float(matrix.std()) == pytest.approx(10**-0.5, rel=0.05)
        assert abs(float(matrix.mean())) < 0.1 * 10**-0.5


def test_each_matrix_teaches_its_own_block_and_the_first_the_embedding_too() -> None:
    setup = Setup("dfa", "resmlp")
    before, kept = setup.grads(), dict(setup.state)
    for l in range(3):
        setup.state = {**kept, f"B.{l}": torch.randn_like(kept[f"B.{l}"])}
        after = setup.grads()
        changed = {part(name) for name in before if not torch.equal(before[name], after[name])}
        assert changed == {f"blocks.{l}"} | ({"embed"} if l == 0 else set())


@pytest.mark.parametrize("net", RESMLPS)
def test_the_credit_is_the_formula(net: str) -> None:
    setup = Setup("dfa", net)
    for got, want in zip(setup.credit(), dfa_credit(setup, oracle_of(setup)), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9, atol=1e-13)


def test_with_the_heads_transpose_the_last_block_is_taught_what_bp_teaches_it() -> None:
    """The limit in which DFA is BP: B = Wᵀ, no terminal norm, no normalisation (ε so large that it only scales)."""
    eps = 1e9
    dfa, bp = Setup("dfa", "resmlp-no-norm", clip=1e30, credit_eps=eps), Setup("bp", "resmlp-no-norm")
    dfa.state["B.2"] = dfa.params["readout.head.weight"].detach().T.clone()
    got, want = dfa.grads(), bp.grads()
    for name in (name for name in want if name.startswith("blocks.2.")):
        torch.testing.assert_close(got[name] * eps, want[name], rtol=1e-7, atol=1e-12)
