"""DKP: direct Kolen–Pollack. Direct feedback that learns with the update of a direct forward weight.

δ_i = (B_i e) ⊙ φ′(z_i) as in ``dfa-layers``, and gradient of B_i = h_i eᵀ, mean over the batch, with h_i what is read
where B_i enters. This is the transpose of the gradient that a weight from h_i straight to the logits would have. So at
the last hidden layer of a net without a skip, B and the head get the same updates: their difference stays, and with
weight decay it vanishes. The gradient of B_i is also that of the rule's objective, so one backward pass gives all.
B trains with the run's optimizer and decay, at ``feedback_lr`` if it is given. With a skip, h_i is the branch f_l, and
a matrix that teaches both h_0 and f_0 has the sum of the two.
Stores one matrix for each hidden layer, and the optimizer's state of each. Costs one forward pass, a backward pass
inside each layer, and an outer product for each matrix.
Webster, Choi & Ahn, "Learning the connections in direct feedback alignment", 2020.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from faudit.nets.net import Net
from faudit.rules import Card
from faudit.rules.direct import DirectRule
from faudit.rules.rule import Group
from faudit.settings import number, setting


@dataclass(frozen=True)
class DKP(DirectRule):
    """Direct feedback alignment whose feedback learns as in Kolen–Pollack."""

    card: ClassVar[Card] = Card(
        title="Direct Kolen–Pollack",
        formula="δ_i = (B_i e) ⊙ φ′(z_i), e = ∂ℓ/∂logits, ΔB_i = −η (h_i eᵀ + λ B_i), B_i ~ N(0, 1)/√C at first",
        reference="Webster, Choi & Ahn, Learning the connections in direct feedback alignment, 2020",
        stores="one trained matrix of features × C for each hidden layer; less with shared or tiled feedback",
        needs=("global error",),
        cost="one forward pass, a backward pass inside each layer, and an outer product for each matrix",
        fails="below the last hidden layer B follows a linear read-out of its own layer, not the path to the output",
    )
    learns_feedback: ClassVar[bool] = True

    feedback_lr: float = setting(0.0, number(0.0), "learning rate of the feedback; 0 takes that of the run")

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return net.output_error(logits, y)

    def trains_state(self, name: str) -> bool:
        """Every matrix that teaches something: B.0 the embedding, B.<tap> a block, B.<weight> the layer before it."""
        owner = name.removeprefix("B.")
        return owner == "0" or (self.trains_blocks if owner.isdigit() else self.trains(owner))

    def groups(self, names: Collection[str]) -> list[Group]:
        own = tuple(name for name in names if self.is_feedback(name))
        return [Group(own, lr=self.feedback_lr)] if self.feedback_lr else []
