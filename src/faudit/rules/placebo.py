"""Placebo: DFA mixed with an auxiliary net that trains but knows nothing of the loss.

A(h_l, t_l) is a scalar, trained by the mean of (A(h_l, t_l) − p·LN(h_l))² with a fixed random direction p ~ N(0, I/d).
It reads neither error nor labels. Credit: a_l = (1 − w) ã_l + w b̃_l, with DFA's credit a_l = B_l e and b_l = ∂A/∂h_l, both
normalised per sample, and w = ``placebo_weight``.
This is the control of rules with an auxiliary net: a gain over DFA that the placebo has too is no proof of credit.
Stores DFA's matrices ("B.<l>"), the auxiliary net (``rules/auxiliary.py``) and p ("p.<width>"). Costs DFA's passes and
three passes of the auxiliary net at every tap. arXiv 2606.21126; what its auxiliary learns is unknown, and this is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, normal
from faudit.rules import Card
from faudit.rules.auxiliary import TIMES, AuxiliaryRule, time_of
from faudit.rules.dfa import DFA
from faudit.rules.local import normalised
from faudit.rules.rule import State


@dataclass(frozen=True)
class Placebo(AuxiliaryRule):
    """DFA mixed with a trained auxiliary net that knows nothing of the loss."""

    card: ClassVar[Card] = Card(
        title="Placebo of the bridges",
        formula="a_l = (1 − w) B_l e/RMS + w ∂A/∂h_l/RMS, with A trained on a random projection of h_l",
        reference="arXiv 2606.21126",
        stores="one matrix of d × C for each block, an auxiliary net of 3 × 256 and its optimizer",
        needs=("global error", "auxiliary net"),
        cost="DFA's passes and three passes of the auxiliary net at every tap",
        fails="by design: most of its signal knows nothing of the loss",
    )

    placebo_weight: float = 0.75

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        widths = net.tap_widths(sample)[: net.signals]
        directions = {f"p.{d}": normal(generator, d, std=d**-0.5) for d in dict.fromkeys(widths)}
        own = self.new_auxiliary(generator, widths, inputs=TIMES, outputs=1)
        return {**DFA().init(net, sample, generator), **own, **directions}

    def value(self, net: Net, state: State, tap: int, h: Tensor) -> Tensor:
        """A at the measured part of h_l, [n]."""
        return self.auxiliary(state, h, time_of(net, tap, h)).squeeze(-1)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        direct = DFA().credit(net, params, state, taps, logits, y)
        w, eps = self.placebo_weight, self.credit_eps
        blind = self.blind(net, state, taps)
        return [(1.0 - w) * normalised(a, eps) + w * normalised(b, eps) for a, b in zip(direct, blind, strict=True)]

    def blind(self, net: Net, state: State, taps: list[Tensor]) -> list[Tensor]:
        """∂A/∂h_l, the share of the credit that knows nothing of the loss."""
        with torch.enable_grad():
            read = [net.tap(h).detach().requires_grad_() for h in taps[: net.signals]]
            values = [self.value(net, state, tap, h).sum() for tap, h in enumerate(read)]
            return list(torch.autograd.grad(torch.stack(values).sum(), read))

    def own_loss(
        self,
        net: Net,
        params: Params,
        state: State,
        trace: Trace,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        wrong = []
        for tap, whole in enumerate(trace.taps[: net.signals]):
            h = net.tap(whole)
            width = h.shape[-1]
            target = F.layer_norm(h, (width,)) @ state[f"p.{width}"]
            wrong.append((self.value(net, state, tap, h) - target).square().mean())
        return torch.stack(wrong).mean()
