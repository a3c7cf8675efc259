"""DRTP: direct random target projection. A fixed random projection of the label teaches every hidden layer.

δ_i = (B_i onehot(y)) ⊙ φ′(z_i); all else as in ``dfa-layers``. No error is fed back: a hidden layer can learn as soon
as it has computed its output. The label stands for the sign of the error, which is −1 at the right class alone. The
sign of B_i is symmetric, so the paper's B and −B are one rule.
Stores one matrix for each hidden layer. Costs one forward pass, and a backward pass inside each layer.
Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from faudit.nets.net import Net, one_hot
from faudit.rules import Card
from faudit.rules.direct import DirectRule


@dataclass(frozen=True)
class DRTP(DirectRule):
    """Direct random target projection."""

    card: ClassVar[Card] = Card(
        title="Direct random target projection",
        formula="δ_i = (B_i onehot(y)) ⊙ φ′(z_i), B_i ~ N(0, 1)/√C fixed",
        reference="Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021",
        stores="one matrix of features × C for each hidden layer; less with shared or tiled feedback",
        needs=("labels",),
        cost="one forward pass, and a backward pass inside each layer",
        fails="the signal never ends, whatever the loss, so only activations that saturate bound the hidden layers",
    )
    no_vectors: ClassVar[str | None] = "its signal is the projected label of a class"

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return one_hot(y, logits)
