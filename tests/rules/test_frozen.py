"""A frozen rule is its rule without the blocks: the same feedback, the same embedding and readout, nothing else."""

from __future__ import annotations

import pytest
import torch

from faudit.rules import RULES
from tests.support.nets import Setup

HEAD = "frozen-"


@pytest.fixture(params=[name.removeprefix(HEAD) for name in RULES if name.startswith(HEAD)])
def taught_by(request: pytest.FixtureRequest) -> str:
    """The rule that teaches the embedding."""
    return str(request.param)


def test_there_is_one_for_each_of_the_rules_of_the_paper() -> None:
    assert {f"{HEAD}bp", f"{HEAD}fa", f"{HEAD}dfa"} <= set(RULES)


def test_it_stores_what_its_rule_stores(taught_by: str, net_name: str) -> None:
    frozen, whole = Setup(HEAD + taught_by, net_name), Setup(taught_by, net_name)
    assert frozen.state.keys() == whole.state.keys()
    assert all(torch.equal(frozen.state[name], whole.state[name]) for name in whole.state)


def test_embedding_and_readout_get_the_gradients_of_its_rule_and_the_blocks_get_none(
    taught_by: str, net_name: str
) -> None:
    frozen, whole = Setup(HEAD + taught_by, net_name).grads(), Setup(taught_by, net_name).grads()
    assert frozen.keys() == {name for name in whole if not name.startswith("blocks.")}
    assert all(torch.equal(frozen[name], whole[name]) for name in frozen)


def test_the_embedding_has_its_rules_signal_and_every_other_tap_zeros(taught_by: str, net_name: str) -> None:
    frozen, whole = Setup(HEAD + taught_by, net_name).credit(), Setup(taught_by, net_name).credit()
    assert torch.equal(frozen[0], whole[0]) and bool(frozen[0].any())
    assert len(frozen) == len(whole) and not any(bool(signal.any()) for signal in frozen[1:])


def test_the_penalty_reaches_the_embedding_through_blocks_that_bp_passes_and_through_no_cut(net_name: str) -> None:
    for rule, reaches in (("frozen-bp", True), ("frozen-dfa", False), ("frozen-fa", False)):
        plain, penalised = (Setup(rule, net_name, penalty=penalty).grads() for penalty in (0.0, 0.1))
        assert torch.equal(plain["embed.weight"], penalised["embed.weight"]) is not reaches, rule
