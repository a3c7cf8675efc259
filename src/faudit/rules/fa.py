"""FA, block-level: fixed random matrices carry the error back from block to block.

c_{L−1} = ∂(mean loss)/∂h_L, exact;  c_l = B_l c_{l+1}, B_l ~ N(0, 1)/√d of shape (d, d), no skip term. c_0
teaches the embedding. The gradient is of the *mean* loss, so it is small, and it falls as the stream grows. Below
ε = credit_eps per feature the normalisation fades out and growth slows down. So ε matters here, unlike in DFA.
Stores B_l ("B.<l>", (L−1)·d² numbers). Costs DFA's passes plus two backward passes of the readout.
After Lillicrap et al., Nature Communications 7, 2016. Their rule differs: it replaces the transpose of every weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, normal
from faudit.rules import Card
from faudit.rules.local import LocalRule
from faudit.rules.rule import State


@dataclass(frozen=True)
class FA(LocalRule):
    """Block-level feedback alignment."""

    card: ClassVar[Card] = Card(
        title="Feedback alignment, from block to block",
        formula="c_{L−1} = ∂(mean ℓ)/∂h_L; c_l = B_l c_{l+1}, B_l ~ N(0, 1)/√d fixed",
        reference="after Lillicrap et al., Nature Communications 7, 2016; block-level form of arXiv 2606.21126",
        stores="one matrix of d × d for each block but the last",
        needs=("global error",),
        cost="DFA's passes and two backward passes of the readout",
        fails="without a penalty the residual stream grows; the signal of early blocks is close to random",
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        widths = net.tap_widths(sample)[: net.signals]
        return {f"B.{l}": normal(generator, d, wide, std=wide**-0.5) for l, (d, wide) in enumerate(pairwise(widths))}

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return self.teaching(net, params, state, taps, logits, y, first=0)

    def teaching(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor, *, first: int
    ) -> list[Tensor]:
        with torch.enable_grad():
            h_last = taps[-1].detach().requires_grad_()
            loss = net.loss(net.readout(params, h_last), y)
            (gradient,) = torch.autograd.grad(loss, h_last)
        credit = [net.tap(gradient)]
        for l in reversed(range(first, net.signals - 1)):
            credit.insert(0, credit[0] @ state[f"B.{l}"].T)
        return credit
