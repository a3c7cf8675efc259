"""BP: backpropagation, the reference for every other rule.

objective = loss (mean over the batch) + penalty, differentiated end to end; no clipping.
Credit of block l: the gradient of each sample's loss at the tap that teaches the block. With a skip this is h_l, the
block's input. Stores nothing. Costs one forward and one backward pass. Rumelhart, Hinton & Williams, Nature 323, 1986.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace
from faudit.rules import Card
from faudit.rules.rule import Objective, Rule, State, Step, branch_penalty, descended
from faudit.settings import number, setting


@dataclass(frozen=True)
class BP(Rule):
    """Backpropagation."""

    card: ClassVar[Card] = Card(
        title="Backpropagation",
        formula="g_l = ∂ℓ/∂h_l, by the chain rule through the transposed weights",
        reference="Rumelhart, Hinton & Williams, Nature 323, 1986",
        stores="nothing",
        needs=("weight transport", "global error"),
        cost="one forward and one backward pass",
        fails="gradients vanish or explode in deep nets without normalisation or skips",
    )

    penalty: float = setting(0.0, number(0.0), "λ of the branch penalty λ·mean Σ f_l(h_l)²")

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
        trace = net.trace(params, x)
        loss = net.loss(trace.logits, y)
        return descended(self, Objective(loss + branch_penalty(trace, self.penalty), loss, trace.logits), params)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [net.tap(gradient) for gradient in tap_gradients(net, params, taps[0], y)[: net.signals]]


def tap_gradients(net: Net, params: Params, h_0: Tensor, y: Tensor) -> list[Tensor]:
    """∂ℓ_i/∂h_l at every tap l = 0..L, where ℓ_i is the loss of sample i."""
    return onward_gradients(net, params, h_0, y)[1]


def traced_gradients(net: Net, params: Params, x: Tensor, y: Tensor) -> tuple[Trace, list[Tensor]]:
    """A forward pass without its graph, and the same gradients, from one pass."""
    with torch.no_grad():
        h_0 = net.embed(params, x)
    return onward_gradients(net, params, h_0, y)


def onward_gradients(net: Net, params: Params, h_0: Tensor, y: Tensor) -> tuple[Trace, list[Tensor]]:
    """The pass from h_0 on without its graph, and ∂ℓ_i/∂h_l at every tap."""
    with torch.enable_grad():
        h = h_0.detach().requires_grad_()
        taps, branches = [h], []
        for l in range(net.blocks):
            branches.append(net.branch(params, l, h))
            h = net.join(h, branches[l])
            taps.append(h)
        logits = net.readout(params, h)
        gradients = torch.autograd.grad(net.loss(logits, y, reduction="sum"), taps)
    held = [tap.detach() for tap in taps]
    trace = Trace(held[0], held, [branch.detach() for branch in branches], held[-1], logits.detach())
    return trace, list(gradients)
