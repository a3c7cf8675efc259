"""Weight mirrors: after every update, noise through each layer shows its weight to the feedback.

z = W x + b;  ∂ℓ/∂x := B ∂ℓ/∂z.  Mirror phase, for each weight by itself: x ~ U(±a/2) in ``mirror_batch`` samples,
y = W x (or sigmoid(W x + b)), then B ← (1 − λ) B + η Σ y xᵀ.  E[Σ y xᵀ] = n·a²/12 · W (a quarter of it with the sigmoid
near its middle), so B turns to W. With decay B settles at η·n·a²/(12 λ) · W.
A convolution sees patches of noise of the size of its kernel.
Stores "B.<weight>" in the shape of every weight but the first layer's, and whether ``mirror_start`` is over. Costs BP's
passes and two products of ``mirror_batch`` samples with each weight.
Akrout, Wilson, Humphreys, Lillicrap & Tweed, NeurIPS 2019. Their code has η 0.01, a 0.1, n 128, λ 0, sigmoid and 468
phases at the start; it also rescales B, but the result is not used.
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
from faudit.settings import number, one_of, setting, whole
from faudit.tensors import sent

MIRRORED = "mirrored"  # the state's name for whether the phases at the start are over


@dataclass(frozen=True)
class WeightMirror(WeightRule):
    """Feedback that learns the weights from noise."""

    card: ClassVar[Card] = Card(
        title="Weight mirrors, at every weight",
        formula="∂ℓ/∂x := B ∂ℓ/∂z; after each update B ← (1 − λ) B + η Σ y xᵀ, y = W x for noise x",
        reference="Akrout, Wilson, Humphreys, Lillicrap & Tweed, NeurIPS 2019",
        stores="one tensor in the shape of every weight but the first layer's",
        needs=("global error", "noise phase"),
        cost="BP's passes and two products of mirror_batch samples with each weight",
        fails="sampling noise keeps B at an angle to W that grows with the number of inputs; W drifts while B follows",
    )
    learns_feedback: ClassVar[bool] = True

    mirror_lr: float = setting(0.001, number(0.0, above=True), "rate η of the feedback in a mirror phase")
    mirror_decay: float = setting(
        0.01, number(0.0, below=1.0), "share λ of the feedback that each mirror phase forgets"
    )
    mirror_noise: float = setting(1.0, number(0.0, above=True), "width a of the noise U(±a/2) of a mirror phase")
    mirror_batch: int = setting(128, whole(1, 10_000_000), "samples of noise in a mirror phase")
    mirror_start: int = setting(0, whole(0, 1_000_000), "further mirror phases after the first update")
    mirror_response: str = setting(
        "linear", one_of(("linear", "sigmoid")), "response of a layer to noise: W x, or sigmoid(W x + b)"
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        drawn = self.drawn(net, generator)
        return {**drawn, MIRRORED: torch.zeros(1)} if self.mirror_start else drawn

    def on_host(self, name: str) -> bool:
        return name == MIRRORED

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        starts = MIRRORED in state and not bool(state[MIRRORED])
        phases = 1 + (self.mirror_start if starts else 0)
        feedback = {name: value for name, value in self.feedback(net, params, state).items() if self.trains(name)}
        for _ in range(phases):
            for name, value in feedback.items():
                feedback[name] = (1.0 - self.mirror_decay) * value + self.mirror_lr * self.mirrored(
                    params[name], params.get(name.removesuffix("weight") + "bias"), generator=generator
                )
        changed = {f"B.{name}": value for name, value in feedback.items()}
        return {**changed, MIRRORED: torch.ones(1)} if starts else changed

    def mirrored(self, weight: Tensor, bias: Tensor | None, *, generator: torch.Generator) -> Tensor:
        """Σ y xᵀ over the samples of one phase, in the shape of the weight."""
        rows = weight.flatten(1)  # [outputs, inputs]; for a convolution the inputs are one patch
        noise = torch.rand(self.mirror_batch, rows.shape[1], dtype=weight.dtype, generator=generator)
        x = self.mirror_noise * (sent(noise, weight.device) - 0.5)
        y = x @ rows.T
        if self.mirror_response == "sigmoid":
            y = torch.sigmoid(y if bias is None else y + bias)
        return (y.T @ x).view_as(weight)
