"""EP: equilibrium propagation. The states relax on an energy while the loss nudges them; the shift is the credit.

Free phase: the forward pass, where the energy E is zero. Nudged phase: ``steps`` steps of gradient descent from there,

    s ← s − dt · ∂(E + β·Σ_i ℓ_i)/∂s,   and the update is (1/β) · ∂(E + β·Σ_i ℓ_i)/∂θ / n at the nudged states s.

It equals the gradient of BP in the limit of β → 0 and of many steps. ``energy`` names E and its states:

    residual   ½‖s_0 − embed(x)‖² + ½ Σ_l ‖s_{l+1} − s_l − f_l(s_l)‖²; the states are h_0 … h_L, whole (every token of
               a ViT). Without a skip, s_{l+1} − f_l(s_l). The loss reads s_L through the readout. arXiv 2606.21126.
    layered    Σ_l ‖s_{l+1} − W_l φ(s_l) − b_l‖², without the ½; the states are the pre-activations of a plain MLP, and
               its logits, which the loss reads. The input is fixed. Conditional Gaussian model of Whittington &
               Bogacz, Neural Computation 29, 2017, as in Schug and Sacramento's code.

Credit at tap l: −(h_l nudged − h_l free)/β.
Stores nothing. Costs one forward pass, and a forward and a backward pass for each of the ``steps``.
Scellier & Bengio, Frontiers in Computational Neuroscience 11, 2017.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from faudit.errors import Diverged
from faudit.nets.mlp import MLP
from faudit.nets.net import Net, Params
from faudit.rules import Card
from faudit.rules.rule import Objective, Rule, State, Step, descended, inner
from faudit.settings import number, one_of, setting, whole

RISEN = 10  # a relaxation has diverged if its energy ends above this many times that of its start


class Energy(ABC):
    """An energy over the states of a net, summed over a batch: how far each state is from what the last one predicts.

    ``first`` is the prediction of the first state, which comes from the input and so does not relax.
    """

    def __init__(self, net: Net) -> None:
        self.net = net

    @abstractmethod
    def free(self, params: Params, taps: list[Tensor]) -> list[Tensor]:
        """The states of the forward pass that had these taps. Each is what the last one predicts: the energy is 0."""

    @abstractmethod
    def first(self, params: Params, x: Tensor) -> Tensor:
        """The prediction of the first state."""

    @abstractmethod
    def energy(self, params: Params, first: Tensor, states: list[Tensor]) -> Tensor:
        """E."""

    @abstractmethod
    def logits(self, params: Params, states: list[Tensor]) -> Tensor:
        """What the loss reads."""

    @abstractmethod
    def taps(self, h_0: Tensor, states: list[Tensor]) -> list[Tensor]:
        """The taps h_0 … h_L at these states."""


class Residual(Energy):
    """The states are the taps."""

    def free(self, params: Params, taps: list[Tensor]) -> list[Tensor]:
        return taps

    def first(self, params: Params, x: Tensor) -> Tensor:
        return self.net.embed(params, x)

    def energy(self, params: Params, first: Tensor, states: list[Tensor]) -> Tensor:
        total = square(states[0] - first)
        for l, h in enumerate(states[:-1]):
            total = total + square(states[l + 1] - self.net.join(h, self.net.branch(params, l, h)))
        return 0.5 * total

    def logits(self, params: Params, states: list[Tensor]) -> Tensor:
        return self.net.readout(params, states[-1])

    def taps(self, h_0: Tensor, states: list[Tensor]) -> list[Tensor]:
        return states


class Layered(Energy):
    """The states are the pre-activations of every layer and the logits; the input is fixed."""

    net: MLP

    def free(self, params: Params, taps: list[Tensor]) -> list[Tensor]:
        hidden = [self.net.driven(params, l, h) for l, h in enumerate(taps[:-1])]
        return [*hidden, self.net.readout(params, taps[-1])]

    def first(self, params: Params, x: Tensor) -> Tensor:
        return self.net.driven(params, 0, self.net.embed(params, x))

    def energy(self, params: Params, first: Tensor, states: list[Tensor]) -> Tensor:
        total, h = square(states[0] - first), self.net.activated(0, states[0])
        for l in range(1, self.net.blocks):
            total = total + square(states[l] - self.net.driven(params, l, h))
            h = self.net.activated(l, states[l])
        return total + square(states[-1] - self.net.readout(params, h))

    def logits(self, params: Params, states: list[Tensor]) -> Tensor:
        return states[-1]

    def taps(self, h_0: Tensor, states: list[Tensor]) -> list[Tensor]:
        return [h_0, *(self.net.activated(l, s) for l, s in enumerate(states[:-1]))]


ENERGIES: dict[str, type[Energy]] = {"residual": Residual, "layered": Layered}


@dataclass(frozen=True)
class EP(Rule):
    """Equilibrium propagation from the forward pass."""

    card: ClassVar[Card] = Card(
        title="Equilibrium propagation",
        formula="s ← s − dt ∂(E + βℓ)/∂s from the forward pass; Δθ ∝ (1/β) ∂(E + βℓ)/∂θ; a_l = −(h_l nudged − h_l)/β",
        reference="Scellier & Bengio, Frontiers in Computational Neuroscience 11, 2017; residual energy of "
        "arXiv 2606.21126",
        stores="nothing",
        needs=("weight transport", "global error", "second phase"),
        cost="one forward pass, and a forward and a backward pass for each relaxation step",
        fails="few steps leave early blocks without a signal; a large step or a growing stream makes the nudged "
        "phase diverge",
    )

    no_amp: ClassVar[str | None] = "its credit is a small shift of the states, which bfloat16 rounds away"
    reads_device: ClassVar[str | None] = "each batch asks whether its relaxation diverged, before the update"

    energy: str = setting("residual", one_of(("residual", "layered")), "energy over the taps, or over every layer")
    beta: float = setting(0.5, number(0.0, above=True), "strength β of the nudge towards a smaller loss")
    steps: int = setting(20, whole(1, 100_000), "relaxation steps of the nudged phase")
    step_size: float = setting(0.1, number(0.0, above=True), "step size dt of the relaxation")

    def refusal(self, net: Net) -> str | None:
        if self.energy == "layered" and not isinstance(net, MLP):
            return "the layered energy needs plain layers, those of the net mlp"
        return None

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
        fixed = {name: value.detach() for name, value in params.items()}
        with torch.no_grad():
            trace = net.trace(fixed, x)
        loss = net.loss(trace.logits, y)
        nudged = self.nudged(net, fixed, trace.taps, y)
        total = self.total(net, params, ENERGIES[self.energy](net).first(params, x), nudged, y)
        self._must_settle(trace.taps, loss * len(x), total)
        return descended(self, Objective(total / (self.beta * len(x)), loss, trace.logits), params)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        fixed = {name: value.detach() for name, value in params.items()}
        free = [h.detach() for h in taps]
        moved = ENERGIES[self.energy](net).taps(free[0], self.nudged(net, fixed, free, y))
        return [net.tap(free[l] - moved[l]) / self.beta for l in range(net.signals)]

    def nudged(self, net: Net, params: Params, taps: list[Tensor], y: Tensor) -> list[Tensor]:
        """The states after the nudged phase, from the taps of the forward pass; ``params`` need no gradient."""
        states = free = ENERGIES[self.energy](net).free(params, taps)
        with torch.enable_grad():
            for _ in range(self.steps):
                states = [s.detach().requires_grad_() for s in states]
                slopes = torch.autograd.grad(self.total(net, params, free[0], states, y), states)
                states = [s.detach() - self.step_size * slope for s, slope in zip(states, slopes, strict=True)]
        return states

    def total(self, net: Net, params: Params, first: Tensor, states: list[Tensor], y: Tensor) -> Tensor:
        """E + β·Σ_i ℓ_i, over the batch."""
        energy = ENERGIES[self.energy](net)
        loss = net.loss(energy.logits(params, states), y, reduction="sum")
        return energy.energy(params, first, states) + self.beta * loss

    def _must_settle(self, taps: list[Tensor], summed: Tensor, energy: Tensor) -> None:
        """Raise Diverged if the energy of a batch rose from that of its forward pass, β·loss, beyond rounding.

        The loss may vanish; rounding of the states then makes an energy of its own.
        """
        size = torch.stack([square(h) for h in taps]).sum()
        loss, total, squares = torch.stack([summed, energy, size]).tolist()  # one read, not three
        rounding = torch.finfo(taps[-1].dtype).eps ** 2 * squares
        if not isfinite(loss):
            raise Diverged("free", f"the loss is {loss}")
        if not (isfinite(total) and total <= RISEN * (self.beta * loss + rounding)):
            rose = f"its energy rose from {self.beta * loss:.3g} to {total:.3g} in {self.steps} steps"
            raise Diverged("nudged", f"{rose}. Take a smaller --step-size")


def square(a: Tensor) -> Tensor:
    """‖a‖² over all entries."""
    return inner(a, a)
