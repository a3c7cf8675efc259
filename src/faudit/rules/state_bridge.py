"""State bridge: an auxiliary net predicts the last state from every state; credit flows through its prediction.

G(h_l, t_l, e) ≈ h_L, trained by the normalised squared error Σ‖G(h_l, t_l, e) − h_L‖² / Σ‖h_L‖², mean over the taps.
Credit: a_l = ∂ℓ(readout(G(h_l, t_l, e)))/∂h_l, of each sample's own loss. So the error passes the readout backwards,
and the auxiliary net, but no block.
Stores the auxiliary net (``rules/auxiliary.py``). Costs DFA's passes, three passes of the auxiliary net at every tap
and two of the readout. arXiv 2606.21126; its sizes on CIFAR-10 are unknown, and these are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace
from faudit.rules import Card
from faudit.rules.auxiliary import TIMES, AuxiliaryRule, time_of
from faudit.rules.rule import State


@dataclass(frozen=True)
class StateBridge(AuxiliaryRule):
    """Credit through a learned prediction of the last state."""

    card: ClassVar[Card] = Card(
        title="State bridge",
        formula="G(h_l, l/L, e) ≈ h_L; a_l = ∂ℓ(readout(G(h_l, l/L, e)))/∂h_l",
        reference="arXiv 2606.21126",
        stores="an auxiliary net of 3 × 256 and its optimizer",
        needs=("global error", "auxiliary net"),
        cost="DFA's passes, three passes of the auxiliary net at every tap and two of the readout",
        fails="a gain over DFA may come from any auxiliary net; compare with the rule placebo",
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        *widths, last = net.tap_widths(sample)
        read = [*widths, last][: net.signals]
        return self.new_auxiliary(generator, read, inputs=TIMES + net.classes, outputs=last)

    def predicted(self, net: Net, state: State, tap: int, h: Tensor, error: Tensor) -> Tensor:
        """G, the prediction of the measured part of h_L from that of h_l."""
        return self.auxiliary(state, h, time_of(net, tap, h), error)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        error, end = net.output_error(logits, y).detach(), taps[-1].detach()
        with torch.enable_grad():
            read = [net.tap(h).detach().requires_grad_() for h in taps[: net.signals]]
            losses = []
            for tap, h in enumerate(read):
                shift = self.predicted(net, state, tap, h, error) - net.tap(end)
                losses.append(net.loss(net.readout(params, end + net.lift(shift, end)), y, reduction="sum"))
            return list(torch.autograd.grad(torch.stack(losses).sum(), read))

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
        error, end = net.output_error(trace.logits, y).detach(), net.tap(trace.taps[-1])
        wrong = [
            (self.predicted(net, state, tap, net.tap(h), error) - end).square().sum()
            for tap, h in enumerate(trace.taps[: net.signals])
        ]
        size = end.square().sum().clamp_min(torch.finfo(end.dtype).tiny)
        return torch.stack(wrong).mean() / size
