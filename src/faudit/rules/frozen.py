"""Frozen blocks: the blocks stay as they were drawn; embedding and readout train.

The baseline of the depth-utility test, in versions that must be told apart: the embedding is taught by DFA (ã_0, as in
``dfa.py``), by FA (c_0, as in ``fa.py``), or by BP through the frozen blocks. The readout gets the true cross-entropy
in all. A frozen block is taught nothing, so its credit is zero and its Γ undefined; the entry at tap 0 is the
embedding's signal. The penalty reaches the embedding under BP only: under the local rules the graph is cut between the
embedding and the branches. Stores what its rule stores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faudit.nets.net import Net, Params
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.fa import FA
from faudit.rules.rule import Rule, State


def outside_blocks(name: str) -> bool:
    """Whether a parameter belongs to the embedding or the readout."""
    return not name.startswith("blocks.")


def only_first(credits: list[Tensor]) -> list[Tensor]:
    """The embedding's signal, and zeros for every block."""
    return [credits[0], *(torch.zeros_like(credit) for credit in credits[1:])]


@dataclass(frozen=True)
class Frozen(Rule):
    """What the versions share, put before the rule that teaches the embedding."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return only_first(super().credit(net, params, state, taps, logits, y))  # type: ignore[safe-super]


@dataclass(frozen=True)
class FrozenDFA(Frozen, DFA):
    """Blocks frozen at init, embedding taught by DFA."""


@dataclass(frozen=True)
class FrozenFA(Frozen, FA):
    """Blocks frozen at init, embedding taught by FA."""


@dataclass(frozen=True)
class FrozenBP(Frozen, BP):
    """Blocks frozen at init, embedding taught by BP through them."""
