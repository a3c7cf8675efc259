"""DFA: direct feedback alignment. A fixed random projection of the output error teaches every block.

e = ∂ℓ/∂logits (softmax(logits) − onehot(y) for cross-entropy);  a_l = e B_lᵀ, B_l ~ N(0, 1)/√C of shape (d, C), one
per block, drawn once.
ã_0 teaches the embedding too, so B_0 is used twice.
Stores B_l for each block ("B.<l>", L·d·C numbers). Costs one forward pass, and a backward pass inside each block.
Nøkland, NeurIPS 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, normal
from faudit.rules import Card
from faudit.rules.local import LocalRule
from faudit.rules.rule import State


@dataclass(frozen=True)
class DFA(LocalRule):
    """Direct feedback alignment at every block."""

    card: ClassVar[Card] = Card(
        title="Direct feedback alignment, at every block",
        formula="a_l = B_l e, e = ∂ℓ/∂logits, B_l ~ N(0, 1)/√C fixed; each block descends ⟨f_l, a_l/RMS(a_l)⟩",
        reference="Nøkland, NeurIPS 2016; block-level form of arXiv 2606.21126",
        stores="one matrix of d × C for each block",
        needs=("global error",),
        cost="one forward pass, and a backward pass inside each block",
        fails="without a penalty the residual stream grows until the credit says nothing about the loss",
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return direct_feedback(net, sample, generator)

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        return heads(net, params)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        error = net.output_error(logits, y)
        return [error @ state[f"B.{l}"].T for l in range(net.signals)]


def direct_feedback(net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """B_l ~ N(0, 1)/√C of shape (features of tap l, C), for each tap that carries a signal."""
    widths = net.tap_widths(sample)[: net.signals]
    std = net.classes**-0.5
    return {f"B.{l}": normal(generator, d, net.classes, std=std) for l, d in enumerate(widths)}


def heads(net: Net, params: Params) -> dict[str, Tensor]:
    """The transposed head of the readout, which direct feedback to any tap replaces, by the name of the feedback."""
    head = next(value for name, value in params.items() if name.startswith("readout.") and value.dim() == 2)
    return {f"B.{l}": head.T for l in range(net.signals)}
