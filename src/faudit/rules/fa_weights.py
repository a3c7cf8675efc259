"""FA at the weights: in the backward pass a fixed random B replaces the transpose of every weight.

z = W x + b;  ∂ℓ/∂x := B ∂ℓ/∂z, B drawn once, by default like the layer's own weight. W and b descend ∂ℓ/∂z as under BP.
Credit of block l: the pseudo-gradient of each sample's loss at the tap that teaches the block. Skips, activations and
norms send it back exactly.
Stores "B.<weight>" in the shape of every weight but the first layer's. Costs BP's passes.
Lillicrap, Cownden, Tweed & Akerman, Nature Communications 7, 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from faudit.rules import Card
from faudit.rules.backward import WeightRule


@dataclass(frozen=True)
class FAWeights(WeightRule):
    """Feedback alignment at every weight."""

    card: ClassVar[Card] = Card(
        title="Feedback alignment, at every weight",
        formula="∂ℓ/∂x := B ∂ℓ/∂z at every z = W x + b, B fixed, drawn like W",
        reference="Lillicrap, Cownden, Tweed & Akerman, Nature Communications 7, 2016",
        stores="one tensor in the shape of every weight but the first layer's",
        needs=("global error",),
        cost="BP's passes",
        fails="W must turn towards B; in deep and convolutional nets it hardly does, and accuracy falls far behind BP",
    )
