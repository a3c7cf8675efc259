"""DFA at every hidden layer: a fixed random projection of the output error teaches every Linear and every Conv2d.

δ_i = (B_i e) ⊙ φ′(z_i), e = ∂ℓ/∂logits (softmax(logits) − onehot(y) for cross-entropy), gradient of W_i: δ_i h_{i−1}ᵀ,
mean over the batch. The readout gets the true gradient. ``rules/direct.py`` says where the signal enters in each net,
and what the three forms of feedback on convolutions are. ``dfa`` differs: one signal per block, normalised and clipped.
Stores one matrix for each hidden layer (features × C numbers each, if dense). Costs one forward pass, and a backward
pass inside each layer. Nøkland, NeurIPS 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from faudit.nets.net import Net
from faudit.rules import Card
from faudit.rules.direct import DirectRule


@dataclass(frozen=True)
class DFALayers(DirectRule):
    """Direct feedback alignment at every hidden layer."""

    card: ClassVar[Card] = Card(
        title="Direct feedback alignment, at every hidden layer",
        formula="δ_i = (B_i e) ⊙ φ′(z_i), e = ∂ℓ/∂logits, B_i ~ N(0, 1)/√C fixed",
        reference="Nøkland, NeurIPS 2016",
        stores="one matrix of features × C for each hidden layer; less with shared or tiled feedback",
        needs=("global error",),
        cost="one forward pass, and a backward pass inside each layer",
        fails="convolutions and deep nets: their signals hardly align with the gradient",
    )

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return net.output_error(logits, y)
