"""Placebo: DFA mixed with an auxiliary net that trains on noise and knows nothing of the loss.

A(h_l, t_l) is a scalar, trained by the mean of (A(h_l, t_l) − z)², with fresh z ~ N(0, 1) for every sample and step.
It reads neither error nor labels. Credit: a_l = (1 − w) ñ(B_l e) + w ñ(∂A/∂h_l), with DFA's B_l, w = ``placebo_weight``
and ñ(a) = a / (RMS(a) + ε) per sample. Without ñ the slope of A would be far smaller than DFA's signal.
This is the control of rules with an auxiliary net: a gain over DFA that the placebo has too is no proof of credit.
Stores DFA's matrices ("B.<l>") and the auxiliary net (``rules/auxiliary.py``). Costs DFA's passes and three passes of
the auxiliary net at every tap. arXiv 2606.21126; what its auxiliary net learns is unknown, and the noise is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace
from faudit.rules import Card
from faudit.rules.auxiliary import TIMES, AuxiliaryRule, time_of
from faudit.rules.dfa import DFA
from faudit.rules.local import normalised
from faudit.rules.rule import State
from faudit.settings import setting, share
from faudit.tensors import sent


@dataclass(frozen=True)
class Placebo(AuxiliaryRule):
    """DFA mixed with a trained auxiliary net that knows nothing of the loss."""

    card: ClassVar[Card] = Card(
        title="Placebo of the bridges",
        formula="a_l = (1 − w) ñ(B_l e) + w ñ(∂A/∂h_l), ñ: RMS 1 per sample, A(h_l, l/L) trained on noise",
        reference="arXiv 2606.21126",
        stores="one matrix of d × C for each block, an auxiliary net of 3 × 256 and its optimizer",
        needs=("global error", "auxiliary net"),
        cost="DFA's passes and three passes of the auxiliary net at every tap",
        fails="by design: most of its signal knows nothing of the loss",
    )

    placebo_weight: float = setting(0.75, share, "share w of the auxiliary net in the credit; DFA has the rest")

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        widths = net.tap_widths(sample)[: net.signals]
        feedback = DFA().init(net, sample, generator)
        return {**feedback, **self.new_auxiliary(generator, widths, inputs=TIMES, outputs=1)}

    def value(self, net: Net, state: State, tap: int, h: Tensor) -> Tensor:
        """A at the measured part of h_l, [n]."""
        return self.auxiliary(state, h, time_of(net, tap, h)).squeeze(-1)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        direct = DFA().credit(net, params, state, taps, logits, y)
        blind = self.blind(net, state, taps)
        eps, w = self.credit_eps, self.placebo_weight
        return [torch.lerp(normalised(a, eps), normalised(b, eps), w) for a, b in zip(direct, blind, strict=True)]

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
            noise = torch.randn(len(whole), generator=generator, dtype=whole.dtype)
            wrong.append((self.value(net, state, tap, net.tap(whole)) - sent(noise, whole.device)).square().mean())
        return torch.stack(wrong).mean()
