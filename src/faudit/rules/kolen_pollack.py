"""Kolen–Pollack: the feedback of a weight gets the weight's own updates, so the two converge.

z = W x + b;  ∂ℓ/∂x := B ∂ℓ/∂z;  B gets the pseudo-gradient of W, and the same optimizer with the same weight decay.
Without decay W − B stays constant, and the angle falls as the weights grow. With decay W − B falls to zero.
Stores "B.<weight>" in the shape of every weight but the first layer's; it is trained. Costs BP's passes and an update
of the stored tensors.
Kolen & Pollack, 1994; Akrout, Wilson, Humphreys, Lillicrap & Tweed, NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params
from faudit.rules import Card
from faudit.rules.backward import WeightRule, weight_of
from faudit.rules.rule import State, Step


@dataclass(frozen=True)
class KolenPollack(WeightRule):
    """Feedback that gets the updates of the weights."""

    card: ClassVar[Card] = Card(
        title="Kolen–Pollack, at every weight",
        formula="∂ℓ/∂x := B ∂ℓ/∂z; ΔB = ΔW, and both decay",
        reference="Kolen & Pollack, ICNN 1994; Akrout et al., NeurIPS 2019",
        stores="one trained tensor in the shape of every weight but the first layer's",
        needs=("global error",),
        cost="BP's passes and an update of the stored tensors",
        fails="without weight decay the initial difference W − B never vanishes",
    )
    learns_feedback: ClassVar[bool] = True

    def trains_state(self, name: str) -> bool:
        return self.trains(weight_of(name))

    def step(
        self,
        net: Net,
        params: Params,
        state: State,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Step:
        step = super().step(net, params, state, x, y, generator=generator)
        same = {name: step.grads[weight_of(name)] for name in state if self.trains_state(name)}
        return replace(step, grads={**step.grads, **same})
