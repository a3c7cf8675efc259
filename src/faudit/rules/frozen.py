"""Frozen blocks: the blocks stay as they were drawn; embedding and readout train.

The baseline of the depth-utility test, in two versions that must be told apart: the embedding is taught by DFA (ã_0,
as in ``dfa.py``), or by BP through the frozen blocks. The readout gets the true cross-entropy in both. A frozen block
is taught nothing, so its credit is zero and its Γ undefined; the entry at tap 0 is the embedding's signal. The
penalty reaches the embedding under BP only: under DFA the graph is cut between the embedding and the branches. Stores
what DFA stores, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faudit.nets.net import Net, Params
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.rule import State


def outside_blocks(name: str) -> bool:
    """Whether a parameter belongs to the embedding or the readout."""
    return not name.startswith("blocks.")


def only_first(credits: list[Tensor]) -> list[Tensor]:
    """The embedding's signal, and zeros for every block."""
    return [credits[0], *(torch.zeros_like(credit) for credit in credits[1:])]


@dataclass(frozen=True)
class FrozenDFA(DFA):
    """Blocks frozen at init, embedding taught by DFA."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return only_first(super().credit(net, params, state, taps, logits, y))


@dataclass(frozen=True)
class FrozenBP(BP):
    """Blocks frozen at init, embedding taught by BP through them."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return only_first(super().credit(net, params, state, taps, logits, y))
