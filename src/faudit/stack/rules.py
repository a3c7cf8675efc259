"""The rules that can be stacked: the step of BP, DFA and FA, and of those with frozen blocks, for several runs at once.

Weights, state and batches have the run as their first dimension. A run reads nothing of another run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, part
from faudit.rules.fa import FA
from faudit.rules.local import LocalRule, normalised, owners, places
from faudit.rules.rule import Rule, State
from faudit.stack.layers import cross_entropy, output_error
from faudit.stack.nets import Stacked


@dataclass(frozen=True)
class Batch:
    """The batch of every run: samples [R, n, …] and classes [R, n]."""

    x: Tensor
    y: Tensor

    @property
    def size(self) -> int:
        """The samples of one run, n."""
        return self.x.shape[1]


@dataclass(frozen=True)
class Pass:
    """A forward pass: the state before each block and after the last, the branches, and what their gradients read."""

    taps: list[Tensor]
    branches: list[Tensor]
    held: list[Any]
    logits: Tensor
    held_by_readout: Any


@torch.no_grad()
def step(
    rule: Rule,
    net: Stacked[Net],
    params: Params,
    state: State,
    batch: Batch,
    *,
    penalties: Sequence[float],
    grads: Mapping[str, Tensor],
) -> Tensor:
    """Write the gradients of the weights that ``grads`` holds; returns the mean loss of every run, [R]."""
    made = forward(net, params, batch)
    losses, slope = cross_entropy(made.logits, batch.y)
    pulls = penalty_slopes(made.branches, penalties, batch)
    if isinstance(rule, LocalRule):
        teach_locally(rule, net, params, state, batch, made, slope, pulls, grads)
        clip(grads, rule.clip)
    else:
        teach_globally(net, params, batch, made, slope, pulls, grads)
    return losses


def forward(net: Stacked[Net], params: Params, batch: Batch) -> Pass:
    taps, branches, held = [net.embed(params, batch.x)], [], []
    for l in range(net.net.blocks):
        branch, own = net.branch(params, l, taps[l])
        branches.append(branch)
        held.append(own)
        taps.append(net.net.join(taps[l], branch))
    logits, last = net.readout(params, taps[-1])
    return Pass(taps, branches, held, logits, last)


def penalty_slopes(branches: list[Tensor], penalties: Sequence[float], batch: Batch) -> list[Tensor] | None:
    """The gradient of λ/n ‖f_l‖² at each branch, with the λ of each run; None if no run has a penalty."""
    if not any(penalties):
        return None
    factors = branches[0].new_tensor([2.0 * (penalty / batch.size) for penalty in penalties]).view(-1, 1, 1)
    return [factors * branch for branch in branches]


def teach_globally(
    net: Stacked[Net],
    params: Params,
    batch: Batch,
    made: Pass,
    slope: Tensor,
    pulls: list[Tensor] | None,
    grads: Params,
) -> None:
    """BP: the gradient of the loss and the penalty flows from block to block."""
    g = asked(net.readout_back(params, made.held_by_readout, slope, grads, inputs=True))
    for l in reversed(range(net.net.blocks)):
        at_branch = g if pulls is None else g + pulls[l]
        into = asked(net.branch_back(params, l, made.held[l], at_branch, grads, inputs=True))
        g = into if net.net.taught_at(l) > l else g + into  # with a skip, the gradient also flows past the block
    net.embed_back(params, batch.x, g, grads)


def teach_locally(
    rule: LocalRule,
    net: Stacked[Net],
    params: Params,
    state: State,
    batch: Batch,
    made: Pass,
    slope: Tensor,
    pulls: list[Tensor] | None,
    grads: Params,
) -> None:
    """A block-local rule: the loss teaches the readout, the normalised credit every block and the embedding."""
    chained = isinstance(rule, FA)  # else DFA, whose credit comes straight from the error
    last = net.readout_back(params, made.held_by_readout, slope, grads, inputs=chained)
    first = 0 if any(part(name) == "embed" for name in params) else net.net.taught_at(0)
    if chained:
        credits = [asked(last)]
        for l in reversed(range(first, net.net.signals - 1)):
            credits.insert(0, torch.bmm(credits[0], state[f"B.{l}"].mT))
    else:
        error = output_error(made.logits, batch.y)
        credits = [torch.bmm(error, state[f"B.{l}"].mT) for l in range(first, net.net.signals)]
    signals = {tap: signal_of(rule, credit) for tap, credit in enumerate(credits, first)}
    if first == 0:
        own = "B.embed" in state  # FA may have a matrix from block 0 to the embedding
        signal = signal_of(rule, torch.bmm(credits[0], state["B.embed"].mT)) if own else signals[0]
        net.embed_back(params, batch.x, signal, grads)
    for l in range(net.net.blocks):
        signal = signals[net.net.taught_at(l)]
        at_branch = signal if pulls is None else signal + pulls[l]
        net.branch_back(params, l, made.held[l], at_branch, grads, inputs=False)


def signal_of(rule: LocalRule, credit: Tensor) -> Tensor:
    """ã/n of every run, the signal of the mean over the batch."""
    if rule.credit_norm == "none":
        return credit / credit.shape[1]
    return normalised(credit.flatten(0, 1), rule.credit_eps, share=credit.shape[1]).view_as(credit)


def asked(gradient: Tensor | None) -> Tensor:
    """A gradient that was asked for."""
    assert gradient is not None, "a backward pass returns the gradient that it is asked for"
    return gradient


def clip(grads: Mapping[str, Tensor], largest: float) -> None:
    """Scale the gradient of each block of each run to norm ≤ largest, in place; embed and readout stay."""
    names, order = owners(tuple(grads))
    if not names:
        return
    tensors = [grads[name] for name in names]
    owner = places(order, tensors[0].device)
    squares = torch.stack([torch.linalg.vector_norm(one.flatten(1), dim=1) for one in tensors]).square()
    norms = squares.new_zeros(max(order) + 1, squares.shape[1]).index_add_(0, owner, squares).sqrt()
    factors = (largest / (norms + 1e-6)).clamp(max=1.0)[owner]
    for one, factor in zip(tensors, factors.unbind(), strict=True):
        one.mul_(factor.view(-1, *[1] * (one.dim() - 1)))
