"""The objective of every block-local rule.

A block-local rule gives each block l a credit a_l and teaches it with

    loss_l = mean over the batch of Σ_i f_l(h_l)_i · ã_{l,i},   ã_l = a_l / (RMS(a_l) + ε) per sample,

with h_l cut from the graph. So autograd is exact inside a block, and no gradient flows between blocks. ã_0 teaches the
embedding, the true loss teaches the readout. All parts use the same weights. So one ``autograd.grad``, which starts at
each f_l with the signal ã_l, gives the gradient of every part. The numbers equal those of one optimizer and one pass
per part. A rule that trains state of its own, such as an auxiliary net, adds the loss of that state to the same pass.
Two settings are for experiments on why streams grow: ``credit_norm`` "none" leaves a_l as it is, and ``block_decay`` is
a weight decay of the blocks alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, part
from faudit.rules.rule import Group, Rule, State, Step, trained_by
from faudit.settings import number, one_of, setting


@dataclass(frozen=True)
class Teaching:
    """The credit from the first taught tap on, and the gradients of the readout if they were made on the way."""

    credits: list[Tensor]
    grads: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalRule(Rule):
    """Base class of block-local rules such as DFA and FA: local objective and clipping. A subclass adds ``credit``."""

    penalty: float = setting(0.0, number(0.0), "λ of the branch penalty λ·mean Σ f_l(h_l)²")
    clip: float = setting(1.0, number(0.0, above=True), "largest gradient norm of one block")
    credit_eps: float = setting(1e-6, number(0.0, above=True), "ε in the credit's normalisation a/(RMS(a)+ε)")
    credit_norm: str = setting(
        "rms", one_of(("rms", "none")), "normalise the credit of each sample, or teach with a itself"
    )
    block_decay: float = setting(0.0, number(0.0), "weight decay of the blocks; 0 for that of the run")

    def groups(self, names: Collection[str]) -> list[Group]:
        blocks = tuple(name for name in names if name.startswith("blocks."))
        return [Group(blocks, weight_decay=self.block_decay)] if self.block_decay else []

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
        trace = net.trace_cut(params, x)
        loss = net.loss(trace.logits, y)
        has_weights = trace.embedded.requires_grad
        first = 0 if has_weights else net.taught_at(0)
        teaching = self.teaching(net, params, state, trace, loss, y, first=first)
        made = teaching.grads
        lessons = [] if made else [(loss, torch.ones_like(loss))]  # outputs, and the signal that each is taught with
        credits = dict(enumerate(teaching.credits, first))
        taught = {tap: self._signal(credit) for tap, credit in credits.items()}
        if has_weights:
            credit = self.embedding_credit(net, state, credits[0])
            signal = taught[0] if credit is credits[0] else self._signal(credit)
            lessons.append((trace.embedded, net.spread(signal, trace.embedded)))
        for l, branch in enumerate(trace.branches):
            signal = net.spread(taught[net.taught_at(l)], branch)
            if self.penalty:
                signal = signal + 2.0 * self.penalty / len(x) * branch.detach()
            lessons.append((branch, signal))
        own = self.own_loss(net, params, state, trace, y, generator=generator)
        if isinstance(own, Tensor):
            lessons.append((own, torch.ones_like(own)))
        outputs = [output for output, _ in lessons if output.requires_grad]
        signals = [as_type_of(output, signal) for output, signal in lessons if output.requires_grad]
        trained = {name: value for name, value in trained_by(self, params, state).items() if name not in made}
        grads = torch.autograd.grad(outputs, list(trained.values()), signals) if trained else ()
        clipped = clip_blocks(dict(zip(trained, grads, strict=True)), self.clip)
        return Step(loss.detach(), trace.logits.detach(), clipped | made)

    def _signal(self, credit: Tensor) -> Tensor:
        """ã/n, the signal of the mean over the batch."""
        n = len(credit)
        return credit / n if self.credit_norm == "none" else normalised(credit, self.credit_eps, share=n)

    def teaching(
        self, net: Net, params: Params, state: State, trace: Trace, loss: Tensor, y: Tensor, *, first: int
    ) -> Teaching:
        """What teaches the parts. A rule overrides this if the pass of the step saves it work."""
        return Teaching(self.credit(net, params, state, trace.taps, trace.logits.detach(), y)[first:])

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


def normalised(credit: Tensor, eps: float, *, share: int = 1) -> Tensor:
    """a / (RMS(a) + ε), per sample; the normalisation fades out where a is small against the hyper-parameter ε.

    ``share`` divides the result. It is part of the divisor, because a division of its own reads all entries again.
    """
    rms: Tensor = torch.linalg.vector_norm(credit, dim=1, keepdim=True) * (share * credit.shape[1] ** -0.5)
    return credit / (rms + share * eps)


def as_type_of(output: Tensor, signal: Tensor) -> Tensor:
    """The signal in the type of its output, which autocast may have chosen; most steps need no call."""
    return signal if signal.dtype == output.dtype else signal.to(output.dtype)


def clip_blocks(grads: dict[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Scale each block's gradient separately to norm ≤ largest, like ``clip_grad_norm_``; embed and readout stay.

    The gradients belong to the step, so they are scaled in place: new tensors would cost a tenth of a step.
    """
    names, order = owners(tuple(grads))
    if not names:
        return grads
    tensors = [grads[name] for name in names]
    squares = torch.stack(
        torch._foreach_norm(tensors)
    ).square_()  # all blocks at once: many small operations would dominate the time of a step
    norms = squares.new_zeros(max(order) + 1).index_add_(0, places(order, squares.device), squares).sqrt_()
    each = (largest / norms.add_(1e-6)).clamp_(max=1.0).unbind()  # as a stack divides, so that both have the same bits
    factors = [each[place] for place in order]
    if are_apart(tensors):
        torch._foreach_mul_(tensors, factors)
        return grads
    scaled = torch._foreach_mul(tensors, factors)
    return {**grads, **dict(zip(names, scaled, strict=True))}


@cache
def owners(names: tuple[str, ...]) -> tuple[list[str], tuple[int, ...]]:
    """The names that belong to blocks, and the place of the block of each among all of them."""
    inside = [name for name in names if name.startswith("blocks.")]
    blocks = [part(name) for name in inside]
    found = sorted(set(blocks))
    return inside, tuple(found.index(one) for one in blocks)


@cache  # numbers of Python reach a GPU by a copy that waits, and every step needs these
def places(order: tuple[int, ...], device: torch.device) -> Tensor:
    """The places as a tensor."""
    return torch.tensor(order, device=device)


def are_apart(tensors: list[Tensor]) -> bool:
    """Whether no two entries share memory. Autograd may give two weights one tensor, or expand one number."""
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    return len(places) == len(tensors) and all(0 not in tensor.stride() for tensor in tensors)
