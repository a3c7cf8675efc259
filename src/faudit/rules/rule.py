"""The interface of a rule, and the objective of every block-local rule.

A rule turns a batch into a pseudo-gradient for each parameter. It is a frozen value whose fields are its
hyper-parameters. Its state (feedback matrices) is a separate dict of named tensors, which the checkpoint saves like the
weights.

A block-local rule gives each block l a credit a_l and teaches it with

    loss_l = mean over the batch of Σ_i f_l(h_l)_i · ã_{l,i},   ã_l = a_l / (RMS(a_l) + ε) per sample,

with h_l cut from the graph. So autograd is exact inside a block, and no gradient flows between blocks. ã_0 teaches the
embedding, the true cross-entropy teaches the readout. All parts use the same weights, so their sum is one objective and
one ``autograd.grad`` gives the gradient of every part. The numbers equal those of one optimizer and one pass per part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, part
from faudit.settings import number, setting

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Step:
    """The result of one batch: cross-entropy, logits, and a gradient for each parameter that the rule trains."""

    loss: Tensor
    logits: Tensor
    grads: dict[str, Tensor]


@dataclass(frozen=True)
class Objective:
    """The scalar whose gradient is the rule's update, and the true loss and logits of the same pass."""

    value: Tensor
    loss: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Rule(ABC):
    """Base class of rules. A rule whose update is not the gradient of one objective overrides ``step``."""

    trains_blocks: ClassVar[bool] = True  # False if the blocks keep their initial weights
    no_control: ClassVar[str | None] = None  # the reason, if the rule can have no frozen control

    penalty: float = setting(0.0, number(0.0), "λ of the branch penalty λ·mean Σ f_l(h_l)²")

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """New float32 feedback weights for a net, drawn from this generator only; ``sample`` is a normalised batch."""
        return {}

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        """The forward weight that each feedback matrix replaces, by the name of the matrix; empty if there is none."""
        return {}

    def trains(self, name: str) -> bool:
        """Whether the rule updates the parameter of this name."""
        return True

    @abstractmethod
    def objective(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Objective:
        """The scalar to differentiate: a pure function of parameters, state and batch."""

    @abstractmethod
    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        """The signal at each of the net's teaching taps, before normalisation, [n, features].

        It is zero where nothing is taught. Entry ``net.taught_at(l)`` teaches block l, entry 0 the embedding. Γ, ρ and
        nudging measure this signal.
        """

    def clipped(self, grads: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients after clipping, as the optimizer gets them; unchanged by default."""
        return grads

    def step(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Step:
        """Pseudo-gradients of one batch. Changes no argument; ``params`` must require grad."""
        objective = self.objective(net, params, state, x, y)
        trained = {name: value for name, value in params.items() if self.trains(name)}
        grads = torch.autograd.grad(objective.value, list(trained.values()))
        return Step(
            objective.loss.detach(), objective.logits.detach(), self.clipped(dict(zip(trained, grads, strict=True)))
        )


@dataclass(frozen=True)
class LocalRule(Rule):
    """Base class of block-local rules such as DFA and FA: local objective and clipping. A subclass adds ``credit``."""

    clip: float = setting(1.0, number(0.0, above=True), "largest gradient norm of one block")
    credit_eps: float = setting(1e-6, number(0.0, above=True), "ε in the credit's normalisation a/(RMS(a)+ε)")

    @final
    def objective(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Objective:
        """Σ_l ⟨f_l, ã_l⟩ + ⟨h_0, ã_0⟩ + cross-entropy of the readout + penalty, over a graph cut at every tap."""
        trace = net.trace_cut(params, x)
        loss = F.cross_entropy(trace.logits, y)
        credits = self.credit(net, params, state, trace.taps, trace.logits.detach(), y)
        signals = [normalised(credit, self.credit_eps) / len(x) for credit in credits]
        value = loss + inner(trace.embedded, net.spread(signals[0], trace.embedded))
        for l, branch in enumerate(trace.branches):
            value = value + inner(branch, net.spread(signals[net.taught_at(l)], branch))
        return Objective(value + branch_penalty(trace, self.penalty), loss, trace.logits)

    def clipped(self, grads: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients, with each block scaled separately to norm ≤ clip."""
        return clip_blocks(grads, self.clip)


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y), the gradient of each sample's cross-entropy at its logits, [n, C]."""
    return F.softmax(logits, dim=1) - F.one_hot(y, logits.shape[1]).to(logits.dtype)


def normalised(credit: Tensor, eps: float) -> Tensor:
    """a / (RMS(a) + ε), per sample; the normalisation fades out where a is small against the hyper-parameter ε."""
    rms = credit.square().mean(dim=1, keepdim=True).sqrt()
    return credit / (rms + eps)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ over all entries, as a scalar."""
    return torch.dot(a.reshape(-1), b.reshape(-1))


def branch_penalty(trace: Trace, penalty: float) -> Tensor | float:
    """λ · mean over the batch of Σ_i f_l(h_l)_i², summed over the blocks."""
    if penalty == 0.0:
        return 0.0
    total = sum((inner(branch, branch) for branch in trace.branches), start=trace.logits.new_zeros(()))
    return penalty / len(trace.logits) * total


def clip_blocks(grads: dict[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Scale each block's gradient separately to norm ≤ largest, like ``clip_grad_norm_``; embed and readout stay."""
    names = [name for name in grads if name.startswith("blocks.")]
    if not names:
        return grads
    tensors, blocks = [grads[name] for name in names], sorted({part(name) for name in names})
    owner = torch.tensor([blocks.index(part(name)) for name in names], device=tensors[0].device)
    squares = torch.stack(
        torch._foreach_norm(tensors)
    ).square()  # all blocks at once: many small operations would dominate the time of a step
    norms = squares.new_zeros(len(blocks)).index_add_(0, owner, squares).sqrt()
    factors = (largest / (norms + 1e-6)).clamp(max=1.0)
    scaled = torch._foreach_mul(tensors, list(factors[owner].unbind()))
    return {**grads, **dict(zip(names, scaled, strict=True))}
