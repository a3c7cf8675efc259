"""The rule contract, and the objective that every block-local rule shares.

A rule turns a batch into a pseudo-gradient for each parameter. It is a frozen value whose fields are its
hyper-parameters; what it must remember (feedback matrices) is a dict of named tensors, its state, which the
checkpoint saves like any weight.

A block-local rule gives each block l a credit a_l and teaches it with

    loss_l = mean over the batch of Σ_i f_l(h_l)_i · ã_{l,i},   ã_l = a_l / (RMS(a_l) + ε) per sample,

with h_l cut from the graph, so autograd is exact inside a block and silent between blocks. The embedding is taught
with ã_0, the readout with the true cross-entropy. All parts are taken at the same weights, so their sum is one
objective and one ``autograd.grad`` gives every part's gradient: the same numbers as one optimizer and one pass per
part.
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

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Step:
    """What one batch gives: the cross-entropy, the logits, and a gradient for each parameter that the rule trains."""

    loss: Tensor
    logits: Tensor
    grads: dict[str, Tensor]


@dataclass(frozen=True)
class Objective:
    """The scalar whose gradient, taken once, is the rule's update; and the true loss and logits on the way."""

    value: Tensor
    loss: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Rule(ABC):
    """The face of every rule. A rule of another shape than "the gradient of one objective" overrides ``step``."""

    trains_blocks: ClassVar[bool] = True  # False where the blocks stay as they were drawn
    no_control: ClassVar[str | None] = None  # why no frozen control of the rule can be made, where none can

    penalty: float = 0.0

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Feedback weights for this net, float32, drawn from the generator alone; ``sample`` is a normalised batch."""
        return {}

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        """The forward weight that each feedback matrix stands for, by the state's names; empty where none does."""
        return {}

    def trains(self, name: str) -> bool:
        """Whether the rule updates the parameter of this name."""
        return True

    @abstractmethod
    def objective(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Objective:
        """The scalar to differentiate, as a pure function of parameters, state and batch."""

    @abstractmethod
    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        """The signal at each of the net's teaching taps, before normalisation, [n, features].

        It is zero where nothing is taught. Block l is taught with the entry ``net.taught_at(l)``, the embedding with
        entry 0. This is what Γ, ρ and nudging judge.
        """

    def clipped(self, grads: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients as the optimizer gets them; a rule without clipping returns them as they are."""
        return grads

    def step(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Step:
        """One batch → pseudo-gradients. Writes nothing; ``params`` must require grad."""
        objective = self.objective(net, params, state, x, y)
        trained = {name: value for name, value in params.items() if self.trains(name)}
        grads = torch.autograd.grad(objective.value, list(trained.values()))
        return Step(
            objective.loss.detach(), objective.logits.detach(), self.clipped(dict(zip(trained, grads, strict=True)))
        )


@dataclass(frozen=True)
class LocalRule(Rule):
    """What DFA, FA and kin share: the local objective, and the clipping of each block. A rule adds its credit."""

    clip: float = 1.0
    credit_eps: float = 1e-6

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
        """Each block's gradient, scaled on its own to norm ≤ clip."""
        return clip_blocks(grads, self.clip)


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y), the gradient of each sample's cross-entropy at its logits, [n, C]."""
    return F.softmax(logits, dim=1) - F.one_hot(y, logits.shape[1]).to(logits.dtype)


def normalised(credit: Tensor, eps: float) -> Tensor:
    """a / (RMS(a) + ε), per sample. Where a is small against ε the normalisation fades out: ε is a hyper-parameter."""
    rms = credit.square().mean(dim=1, keepdim=True).sqrt()
    return credit / (rms + eps)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ over everything, as a scalar."""
    return torch.dot(a.reshape(-1), b.reshape(-1))


def branch_penalty(trace: Trace, penalty: float) -> Tensor | float:
    """λ · mean over the batch of Σ_i f_l(h_l)_i², summed over the blocks."""
    if penalty == 0.0:
        return 0.0
    total = sum((inner(branch, branch) for branch in trace.branches), start=trace.logits.new_zeros(()))
    return penalty / len(trace.logits) * total


def clip_blocks(grads: dict[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Scale each block's gradient on its own to norm ≤ largest, as ``clip_grad_norm_`` does; embed and readout stay."""
    names = [name for name in grads if name.startswith("blocks.")]
    if not names:
        return grads
    tensors, blocks = [grads[name] for name in names], sorted({part(name) for name in names})
    owner = torch.tensor([blocks.index(part(name)) for name in names], device=tensors[0].device)
    squares = torch.stack(
        torch._foreach_norm(tensors)
    ).square()  # all blocks at once: small operations are what a step waits for
    norms = squares.new_zeros(len(blocks)).index_add_(0, owner, squares).sqrt()
    factors = (largest / (norms + 1e-6)).clamp(max=1.0)
    scaled = torch._foreach_mul(tensors, list(factors[owner].unbind()))
    return {**grads, **dict(zip(names, scaled, strict=True))}
