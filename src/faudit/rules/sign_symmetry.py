"""Sign symmetry: the feedback of a weight has the weight's signs, and magnitudes of its own.

z = W x + b;  ∂ℓ/∂x := (sign(W) ∘ M) ∂ℓ/∂z, M ≥ 0.  With M = |W| this is BP.  Three variants:
usf: M is constant in each layer, the root mean square of an initial draw;
frsf: M = |B₀|, drawn once;  brsf: M is drawn anew after every update.
Stores M as "B.<weight>" in the shape of every weight but the first layer's. Costs BP's passes and one product of the
size of the weights; brsf also a draw of that size.
Liao, Leibo & Poggio, AAAI 2016; Moskovitz, Litwin-Kumar & Abbott, arXiv 1812.06488.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params
from faudit.rules import Card
from faudit.rules.backward import WeightRule
from faudit.rules.rule import State, Step
from faudit.settings import one_of, setting
from faudit.tensors import sent


@dataclass(frozen=True)
class SignSymmetry(WeightRule):
    """Feedback with the signs of the weights."""

    card: ClassVar[Card] = Card(
        title="Sign symmetry, at every weight",
        formula="∂ℓ/∂x := (sign(W) ∘ M) ∂ℓ/∂z; M constant (usf), fixed |B₀| (frsf) or redrawn at every step (brsf)",
        reference="Liao, Leibo & Poggio, AAAI 2016; Moskovitz, Litwin-Kumar & Abbott, arXiv 1812.06488",
        stores="one tensor of magnitudes in the shape of every weight but the first layer's",
        needs=("weight transport", "global error"),
        cost="BP's passes and one product of the size of the weights; brsf also a draw of that size",
        fails="it transports the signs of the weights, so it solves only half of the problem",
    )

    variant: str = setting(
        "frsf", one_of(("usf", "frsf", "brsf")), "magnitudes of the feedback: constant, fixed, or drawn at every step"
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return self.magnitudes(net, generator)

    def magnitudes(self, net: Net, generator: torch.Generator) -> dict[str, Tensor]:
        drawn = self.drawn(net, generator)
        if self.variant == "usf":
            return {name: torch.full_like(value, float(value.square().mean().sqrt())) for name, value in drawn.items()}
        return {name: value.abs() for name, value in drawn.items()}

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        if self.variant != "brsf":
            return {}
        return {name: sent(value, state[name].device) for name, value in self.magnitudes(net, generator).items()}

    def feedback(self, net: Net, params: Params, state: State) -> dict[str, Tensor]:
        sizes = super().feedback(net, params, state)
        return {name: params[name].detach().sign() * size for name, size in sizes.items()}

    def fresh(self, net: Net, state: State, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """New magnitudes with random signs, because feedback with the signs of W knows the weights."""
        drawn = self.magnitudes(net, generator)
        return {name: value * random_signs(value, generator) for name, value in drawn.items()}

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        # The angle between M and |W| is the angle between the feedback sign(W) ∘ M and W.
        return {name: value.abs() for name, value in super().forward_of(net, params).items()}


def random_signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """±1 with equal chance, in the shape of a tensor."""
    return torch.empty_like(like).bernoulli_(0.5, generator=generator).mul_(2.0).sub_(1.0)
