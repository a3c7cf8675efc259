"""FA, block-level: fixed random matrices carry the error back from block to block.

c_{L−1} = ∂(mean loss)/∂h_L, exact;  c_l = B_l c_{l+1}, B_l ~ N(0, 1)/√d of shape (d, d), no skip term. One more matrix
carries the error to the embedding: c_emb = B_e c_0. With ``--embedding-feedback none`` c_0 itself teaches it. Without a
skip, c_0 teaches nothing else, and there is no B_e. The gradient is of the *mean* loss, so it is small, and it falls as
the stream grows. Below ε = credit_eps per feature the normalisation fades out and growth slows down. So ε matters here,
unlike in DFA.
Stores B_l ("B.<l>") and B_e ("B.embed"), L·d² numbers. Costs DFA's passes and one product for each matrix.
After Lillicrap et al., Nature Communications 7, 2016. Their rule differs: it replaces the transpose of every weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, normal, part
from faudit.rules import Card
from faudit.rules.local import LocalRule, Teaching
from faudit.rules.rule import State
from faudit.settings import one_of, setting


@dataclass(frozen=True)
class FA(LocalRule):
    """Block-level feedback alignment."""

    card: ClassVar[Card] = Card(
        title="Feedback alignment, from block to block",
        formula="c_{L−1} = ∂(mean ℓ)/∂h_L; c_l = B_l c_{l+1}, B_l ~ N(0, 1)/√d fixed; the embedding gets B_e c_0",
        reference="after Lillicrap et al., Nature Communications 7, 2016; block-level form of arXiv 2606.21126",
        stores="one matrix of d × d for each block but the last, and one for the embedding",
        needs=("global error",),
        cost="DFA's passes and one product for each matrix",
        fails="without a penalty the residual stream grows; the signal of early blocks is close to random",
    )

    embedding_feedback: str = setting(
        "own",
        one_of(("own", "none")),
        "what carries the error from block 0 to the embedding: a matrix of its own, or none",
        before="none",
    )

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        widths = net.tap_widths(sample)[: net.signals]
        state = {f"B.{l}": normal(generator, d, wide, std=wide**-0.5) for l, (d, wide) in enumerate(pairwise(widths))}
        if self._reaches_embedding(net):
            state["B.embed"] = normal(generator, widths[0], widths[0], std=widths[0] ** -0.5)
        return state

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        with torch.enable_grad():
            end = taps[-1].detach().requires_grad_()
            (gradient,) = torch.autograd.grad(net.loss(net.readout(params, end), y), end)
        return sent_back(net, state, gradient, first=0)

    def teaching(
        self, net: Net, params: Params, state: State, trace: Trace, loss: Tensor, y: Tensor, *, first: int
    ) -> Teaching:
        """One pass gives the gradient at h_L and those of the readout's weights; a second pass would repeat it."""
        own = {name: value for name, value in params.items() if part(name) == "readout" and self.trains(name)}
        gradient, *grads = torch.autograd.grad(loss, [trace.end, *own.values()])
        return Teaching(sent_back(net, state, gradient, first=first), dict(zip(own, grads, strict=True)))

    def embedding_credit(self, net: Net, state: State, credit: Tensor) -> Tensor:
        return credit @ state["B.embed"].T if self._reaches_embedding(net) else credit

    def _reaches_embedding(self, net: Net) -> bool:
        """Whether a matrix of its own carries the error from block 0 to the embedding."""
        return self.embedding_feedback == "own" and net.taught_at(0) == 0


def sent_back(net: Net, state: State, gradient: Tensor, *, first: int) -> list[Tensor]:
    """The credit from tap ``first`` on: the gradient of the loss at h_L, and what the feedback makes of it."""
    credit = [net.tap(gradient)]
    for l in reversed(range(first, net.signals - 1)):
        credit.insert(0, credit[0] @ state[f"B.{l}"].T)
    return credit
