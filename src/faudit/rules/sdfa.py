"""sDFA: direct feedback alignment with the sign of the error.

δ_i = (B_i sign(e)) ⊙ φ′(z_i), e = ∂ℓ/∂logits; all else as in ``dfa-layers``. An error of exactly zero gives no signal.
The size of the error does not matter, so the hidden layers do not slow down while the loss falls.
Stores one matrix for each hidden layer. Costs one forward pass, and a backward pass inside each layer.
Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from faudit.nets.net import Net
from faudit.rules import Card
from faudit.rules.direct import DirectRule


@dataclass(frozen=True)
class SDFA(DirectRule):
    """Direct feedback alignment with the sign of the error."""

    card: ClassVar[Card] = Card(
        title="Direct feedback alignment with the sign of the error",
        formula="δ_i = (B_i sign(e)) ⊙ φ′(z_i), e = ∂ℓ/∂logits, B_i ~ N(0, 1)/√C fixed",
        reference="Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021",
        stores="one matrix of features × C for each hidden layer; less with shared or tiled feedback",
        needs=("global error",),
        cost="one forward pass, and a backward pass inside each layer",
        fails="samples that are already right move the hidden layers as much as wrong ones",
    )

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return net.output_error(logits, y).sign()
