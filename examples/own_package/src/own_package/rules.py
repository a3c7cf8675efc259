"""DFA with noise: every gradient g becomes g + noise · ‖g‖ ξ, with a random direction ξ in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit import LocalRule, Net, Step
from faudit.nets.net import Params
from faudit.rules import Card
from faudit.rules.dfa import direct_feedback
from faudit.rules.rule import State
from faudit.settings import number, setting


@dataclass(frozen=True)
class NoisyDFA(LocalRule):
    """Direct feedback alignment with noise in the gradients of every step."""

    card: ClassVar[Card] = Card(
        title="Noisy direct feedback alignment",
        formula="a_l = B_l e; every gradient plus noise · ‖gradient‖ · a random direction",
        reference="an example of this repository",
        stores="one matrix of d × C for each block",
        needs=("global error",),
        cost="that of DFA",
        fails="with much noise it does not learn",
    )

    noise: float = setting(0.1, number(0.0), "size of the noise, relative to the gradient")

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return direct_feedback(net, sample, generator)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        error = net.output_error(logits, y)
        return [error @ state[f"B.{l}"].T for l in range(net.signals)]

    def step(
        self, net: Net, params: Params, state: State, x: Tensor, y: Tensor, *, generator: torch.Generator | None = None
    ) -> Step:
        step = super().step(net, params, state, x, y, generator=generator)
        return Step(step.loss, step.logits, {name: self.disturbed(g, generator) for name, g in step.grads.items()})

    def disturbed(self, gradient: Tensor, generator: torch.Generator | None) -> Tensor:
        """A gradient plus noise; the run's own generator draws it, so that a resumed run draws the same."""
        draw = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype).to(gradient.device)
        size: Tensor = self.noise * gradient.norm() / draw.norm()
        return gradient + size * draw
