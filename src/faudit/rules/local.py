"""The objective of every block-local rule.

A block-local rule gives each block l a credit a_l and teaches it with

    loss_l = mean over the batch of Σ_i f_l(h_l)_i · ã_{l,i},   ã_l = a_l / (RMS(a_l) + ε) per sample,

with h_l cut from the graph. So autograd is exact inside a block, and no gradient flows between blocks. ã_0 teaches the
embedding, the true loss teaches the readout. All parts use the same weights, so their sum is one objective and one
``autograd.grad`` gives the gradient of every part. The numbers equal those of one optimizer and one pass per part.
A rule that trains state of its own, such as an auxiliary net, adds the loss of that state to the same objective.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import final

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, part
from faudit.rules.rule import Objective, Rule, State, Step, branch_penalty, descended, inner
from faudit.settings import number, setting


@dataclass(frozen=True)
class LocalRule(Rule):
    """Base class of block-local rules such as DFA and FA: local objective and clipping. A subclass adds ``credit``."""

    penalty: float = setting(0.0, number(0.0), "λ of the branch penalty λ·mean Σ f_l(h_l)²")
    clip: float = setting(1.0, number(0.0, above=True), "largest gradient norm of one block")
    credit_eps: float = setting(1e-6, number(0.0, above=True), "ε in the credit's normalisation a/(RMS(a)+ε)")

    @final
    def objective(
        self, net: Net, params: Params, state: State, x: Tensor, y: Tensor, *, generator: torch.Generator | None = None
    ) -> Objective:
        """Σ_l ⟨f_l, ã_l⟩ + ⟨h_0, ã_0⟩ + loss of the readout + penalty + own loss, over a graph cut at every tap."""
        trace = net.trace_cut(params, x)
        loss = net.loss(trace.logits, y)
        first = 0 if trace.embedded.requires_grad else net.taught_at(0)  # an embedding without weights learns nothing
        credits = self.teaching(net, params, state, trace.taps, trace.logits.detach(), y, first=first)
        signals = {tap: normalised(credit, self.credit_eps) / len(x) for tap, credit in enumerate(credits, first)}
        value = loss
        if trace.embedded.requires_grad:
            value = value + inner(trace.embedded, net.spread(signals[0], trace.embedded))
        for l, branch in enumerate(trace.branches):
            value = value + inner(branch, net.spread(signals[net.taught_at(l)], branch))
        value = value + branch_penalty(trace, self.penalty)
        own = self.own_loss(net, params, state, trace, y, generator=generator)
        return Objective(value + own, loss, trace.logits)

    def teaching(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor, *, first: int
    ) -> list[Tensor]:
        """The credit from tap ``first`` on. A rule overrides this if it can save the work for the taps before."""
        return self.credit(net, params, state, taps, logits, y)[first:]

    def own_loss(
        self,
        net: Net,
        params: Params,
        state: State,
        trace: Trace,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor | float:
        """The loss of the state that the rule trains. Only that state may be in its graph; the logits are cut off."""
        return 0.0

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
        step = descended(self, self.objective(net, params, state, x, y, generator=generator), params, state)
        return replace(step, grads=clip_blocks(step.grads, self.clip))


def normalised(credit: Tensor, eps: float) -> Tensor:
    """a / (RMS(a) + ε), per sample; the normalisation fades out where a is small against the hyper-parameter ε."""
    rms = credit.square().mean(dim=1, keepdim=True).sqrt()
    return credit / (rms + eps)


def clip_blocks(grads: dict[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Scale each block's gradient separately to norm ≤ largest, like ``clip_grad_norm_``; embed and readout stay.

    The gradients belong to the step, so they are scaled in place: new tensors would cost a tenth of a step.
    """
    names = [name for name in grads if name.startswith("blocks.")]
    if not names:
        return grads
    tensors, parts = [grads[name] for name in names], tuple(map(part, names))
    owner = owners(parts, tensors[0].device)
    squares = torch.stack(
        torch._foreach_norm(tensors)
    ).square()  # all blocks at once: many small operations would dominate the time of a step
    norms = squares.new_zeros(len(set(parts))).index_add_(0, owner, squares).sqrt()
    factors = list((largest / (norms + 1e-6)).clamp(max=1.0)[owner].unbind())
    if are_apart(tensors):
        torch._foreach_mul_(tensors, factors)
        return grads
    scaled = torch._foreach_mul(tensors, factors)
    return {**grads, **dict(zip(names, scaled, strict=True))}


@cache  # numbers of Python reach a GPU by a copy that waits, and every step needs these
def owners(parts: tuple[str, ...], device: torch.device) -> Tensor:
    """The place of each part among all of them."""
    order = sorted(set(parts))
    return torch.tensor([order.index(one) for one in parts], device=device)


def are_apart(tensors: list[Tensor]) -> bool:
    """Whether no two entries share memory. Autograd may give two weights one tensor, or expand one number."""
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    return len(places) == len(tensors) and all(0 not in tensor.stride() for tensor in tensors)
