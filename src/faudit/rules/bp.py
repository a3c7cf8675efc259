"""BP: backpropagation, the reference for every other rule.

objective = cross-entropy (mean over the batch) + penalty, differentiated end to end; no clipping.
Credit of block l: the gradient of each sample's loss at the tap that teaches the block. With a skip this is h_l, the
block's input. Stores nothing. Costs one forward and one backward pass. Rumelhart, Hinton & Williams, Nature 323, 1986.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params
from faudit.rules.rule import Objective, Rule, State, branch_penalty


@dataclass(frozen=True)
class BP(Rule):
    """Backpropagation."""

    def objective(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Objective:
        trace = net.trace(params, x)
        loss = F.cross_entropy(trace.logits, y)
        return Objective(loss + branch_penalty(trace, self.penalty), loss, trace.logits)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [net.tap(gradient) for gradient in tap_gradients(net, params, taps[0], y)[: net.signals]]


def tap_gradients(net: Net, params: Params, h_0: Tensor, y: Tensor) -> list[Tensor]:
    """∂ℓ_i/∂h_l at every tap l = 0..L, where ℓ_i is the loss of sample i."""
    with torch.enable_grad():
        h = h_0.detach().requires_grad_()
        taps = [h]
        for l in range(net.blocks):
            h = net.join(h, net.branch(params, l, h))
            taps.append(h)
        loss = F.cross_entropy(net.readout(params, h), y, reduction="sum")
        return list(torch.autograd.grad(loss, taps))
