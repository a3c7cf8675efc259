"""The interface of a network: an embedding, blocks and a readout, as pure functions of named parameters.

h_0 = embed(x);  h_{l+1} = join(h_l, f_l(h_l)), f_l = branch l;  logits = readout(h_L).  Taps are h_0 … h_L.

A net is a frozen value that holds sizes. Weights are a separate dict of tensors by name, so the same function works for
float32 and float64, one seed or many stacked, eager or compiled. Each name starts with its part: ``embed.``,
``blocks.<l>.`` or ``readout.``. The running statistics of a BatchNorm are among the weights (``is_buffer``).

A net behaves as in evaluation. ``in_training`` gives the same net as it is inside one training step: with dropout, and
with the batch's own statistics in BatchNorm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import sqrt
from typing import TypeVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.tensors import sent

Params = Mapping[str, Tensor]
Self = TypeVar("Self", bound="Net")
BUFFERS = ("running_mean", "running_var")  # how the name of a running statistic ends


@dataclass(frozen=True)
class Trace:
    """The values of one forward pass that rules and probes read.

    ``taps[l]`` is h_l as block l reads it, ``embedded`` is h_0 with its graph, ``branches[l]`` is f_l(h_l), ``end`` is
    h_L as the readout reads it.
    """

    embedded: Tensor
    taps: list[Tensor]
    branches: list[Tensor]
    end: Tensor
    logits: Tensor


class Training:
    """What the passes of one training step share: dropout masks, and which BatchNorm has been written.

    A rule with two passes (PEPITA) sees the same masks in both. Running statistics follow the first pass only.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._masks: dict[str, Tensor] = {}
        self._written: set[str] = set()
        self._drops = True

    def dropped(self, h: Tensor, place: str, *, rate: float) -> Tensor:
        """Dropout of a state with the mask of a place: zero at a share ``rate`` of the features, the rest scaled up."""
        if not self._drops:
            return h
        if place not in self._masks:
            kept = torch.rand(h.shape, generator=self._generator) >= rate
            self._masks[place] = sent(kept, h.device).to(h.dtype) / (1.0 - rate)
        return h * self._masks[place]

    @property
    def has_dropped(self) -> bool:
        """Whether a pass of this step had dropout."""
        return bool(self._masks)

    def undropped(self) -> Training:
        """The same step without dropout."""
        other = Training(self._generator)
        other._written, other._drops = self._written, False
        return other

    def is_first(self, place: str) -> bool:
        """Whether this is the first pass of the step through a place."""
        first = place not in self._written
        self._written.add(place)
        return first


@dataclass(frozen=True)
class Net(ABC):
    """Base class of networks; the further fields of a subclass are its settings, named as in the config."""

    sample_shape: tuple[int, ...]
    classes: int  # the number of outputs, which are numbers and not classes if the targets are vectors
    training: Training | None = field(default=None, kw_only=True, compare=False, repr=False)  # None in evaluation

    @property
    @abstractmethod
    def blocks(self) -> int:
        """The number of blocks, L."""

    @abstractmethod
    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        """New float32 weights by name, drawn from this generator only."""

    @abstractmethod
    def embed(self, params: Params, x: Tensor) -> Tensor:
        """x → h_0."""

    @abstractmethod
    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        """h_l → f_l(h_l)."""

    @abstractmethod
    def readout(self, params: Params, h: Tensor) -> Tensor:
        """h_L → logits."""

    @abstractmethod
    def join(self, h: Tensor, f: Tensor) -> Tensor:
        """(h_l, f_l) → h_{l+1}: their sum, or f_l alone if there is no skip."""

    def loss(self, logits: Tensor, y: Tensor, *, reduction: str = "mean") -> Tensor:
        """The loss of the samples ("none"), its "mean" or its "sum", as in torch; cross-entropy by default."""
        return F.cross_entropy(logits, y, reduction=reduction)

    def output_error(self, logits: Tensor, y: Tensor) -> Tensor:
        """e, the gradient of each sample's loss at its logits, [n, C]; of the cross-entropy by default."""
        return output_error(logits, y)

    @property
    def fits_vectors(self) -> bool:
        """Whether its loss accepts targets that are vectors, [n, outputs]; the cross-entropy needs classes."""
        return False

    @property
    def least_batch(self) -> int:
        """The fewest samples of a training batch: a BatchNorm cannot normalise one value alone."""
        return 1

    @property
    @final
    def parts(self) -> list[str]:
        """The names of the parts, in order: embed, the blocks, readout. An embedding may have no weights."""
        return ["embed", *(f"blocks.{l}" for l in range(self.blocks)), "readout"]

    @final
    def dropped(self, h: Tensor, place: str, *, rate: float) -> Tensor:
        """A state after dropout at a place; unchanged in evaluation."""
        return h if self.training is None or rate == 0.0 else self.training.dropped(h, place, rate=rate)

    @final
    def in_training(self: Self, generator: torch.Generator) -> Self:
        """The net inside one training step; ``generator`` draws its dropout masks."""
        return replace(self, training=Training(generator))

    @final
    def undropped(self: Self) -> Self:
        """The net in the same training step without dropout; itself if no pass of the step had any."""
        if self.training is None or not self.training.has_dropped:
            return self
        return replace(self, training=self.training.undropped())

    @property
    def signals(self) -> int:
        """The number of taps that carry a teaching signal.

        With a skip, all states have one space and the taps are h_0 … h_{L−1}: L. Without a skip, a block's signal is at
        its output, so h_L carries a signal too: L + 1.
        """
        return self.blocks

    @final
    def taught_at(self, block: int) -> int:
        """The tap whose signal teaches block l. That signal is compared with the gradient at the same tap.

        The embedding is always taught by tap 0.
        """
        return block + self.signals - self.blocks

    @property
    def is_pure(self) -> bool:
        """Whether its functions read and write only their arguments, so that several threads may call them at once."""
        return True

    def tap(self, h: Tensor) -> Tensor:
        """The measured part of a hidden state, [n, features]; by default all of it."""
        return h.flatten(1)

    def spread(self, signal: Tensor, like: Tensor) -> Tensor:
        """Expand a signal [n, features] of a tap to the shape of the hidden state or branch that it teaches."""
        return signal.view_as(like)

    def lift(self, shift: Tensor, like: Tensor) -> Tensor:
        """Expand a displacement [n, features] of a tap to a displacement of the whole hidden state."""
        return shift.view_as(like)

    def tap_widths(self, sample: Tensor) -> list[int]:
        """The number of features of each tap h_0 … h_L, from a forward pass."""
        return list(widths(self, tuple(sample.shape[1:])))

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """x → logits."""
        return self.onward(params, 0, self.embed(params, x))

    def onward(self, params: Params, block: int, h: Tensor) -> Tensor:
        """h_l → logits: run the net from the input of a block."""
        for l in range(block, self.blocks):
            h = self.join(h, self.branch(params, l, h))
        return self.readout(params, h)

    def trace(self, params: Params, x: Tensor) -> Trace:
        """One forward pass that keeps every step and the whole graph."""
        h = embedded = self.embed(params, x)
        taps, branches = [h], []
        for l in range(self.blocks):
            branches.append(self.branch(params, l, h))
            h = self.join(h, branches[l])
            taps.append(h)
        return Trace(embedded, taps, branches, h, self.readout(params, h))

    def trace_cut(self, params: Params, x: Tensor) -> Trace:
        """The same values with the graph cut at every tap: no gradient flows from a block to an earlier part.

        ``end`` is a leaf of the readout's graph, so a rule can ask for the gradient there.
        """
        embedded = self.embed(params, x)
        h = embedded.detach()
        taps, branches = [h], []
        for l in range(self.blocks):
            branches.append(self.branch(params, l, h))
            h = self.join(h, branches[l].detach())
            taps.append(h)
        end = h.detach().requires_grad_()
        return Trace(embedded, taps, branches, end, self.readout(params, end))


@cache
def widths(net: Net, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The number of features of each tap for samples of a shape; cached, because a net is immutable."""
    net = replace(net, training=None)  # in training the pass would draw masks, and refuse a batch of one
    params = net.init(torch.Generator().manual_seed(0))
    with torch.no_grad():
        return tuple(net.tap(h).shape[1] for h in net.trace(params, empty(1, *shape).zero_()).taps)


def is_buffer(name: str) -> bool:
    """Whether a weight of this name is a running statistic, which no gradient trains."""
    return name.endswith(BUFFERS)


@cache
def part(name: str) -> str:
    """The part that a parameter belongs to: "embed", "readout" or "blocks.<l>"."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] == "blocks" else words[0]


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """softmax(logits) − onehot(y), the gradient of each sample's cross-entropy at its logits, [n, C]."""
    return F.softmax(logits, dim=1) - one_hot(y, logits)


def one_hot(y: Tensor, like: Tensor) -> Tensor:
    """The labels as rows of 0 and 1, with the shape and type of the logits."""
    classes = torch.arange(like.shape[1], device=y.device)
    return (y.unsqueeze(1) == classes).to(like.dtype)  # F.one_hot looks for the largest label first


def target(y: Tensor, like: Tensor) -> Tensor:
    """What the outputs should be: y itself if it holds vectors, otherwise its one-hot rows."""
    return y.to(like.dtype) if y.is_floating_point() else one_hot(y, like)


def linear(generator: torch.Generator, *, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """Weight and bias distributed as in ``nn.Linear``, both U(±1/√inputs), drawn from a given generator."""
    bound = inputs**-0.5
    weight = empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
    return weight, empty(outputs).uniform_(-bound, bound, generator=generator)


def normal(generator: torch.Generator, *shape: int, std: float) -> Tensor:
    """A tensor of the given shape with entries from N(0, std²)."""
    return empty(*shape).normal_(0.0, std, generator=generator)


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x).

    In float64 and without a graph it uses ``torch.erf``. This equals ``F.gelu`` up to the last digits and takes half
    the time on the large states of an audit.
    """
    if x.dtype != torch.float64 or x.requires_grad:
        return F.gelu(x)
    return torch.erf(x * sqrt(0.5)).add_(1).mul_(x).mul_(0.5)


def ones_zeros(width: int) -> tuple[Tensor, Tensor]:
    """Initial weight and bias of a LayerNorm."""
    return empty(width).fill_(1.0), empty(width).fill_(0.0)


def new_batch_norm(name: str, width: int) -> dict[str, Tensor]:
    """Initial weights and running statistics of a BatchNorm."""
    weight, bias = ones_zeros(width)
    var, mean = ones_zeros(width)
    return {
        f"{name}.weight": weight,
        f"{name}.bias": bias,
        f"{name}.running_mean": mean,
        f"{name}.running_var": var,
    }


def batch_norm(training: Training | None, params: Params, name: str, h: Tensor) -> Tensor:
    """BatchNorm as in torch: by the running statistics in evaluation, by the batch's own in training.

    The first pass of a training step writes the running statistics, in place.
    """
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    mean, var = params[f"{name}.running_mean"], params[f"{name}.running_var"]
    if training is None:
        return F.batch_norm(h, mean, var, weight, bias)
    if training.is_first(name):
        return F.batch_norm(h, mean, var, weight, bias, training=True)
    return F.batch_norm(h, None, None, weight, bias, training=True)


def empty(*shape: int) -> Tensor:
    """An empty float32 CPU tensor whatever torch's defaults are, so that a seed gives the same numbers everywhere."""
    return torch.empty(*shape, dtype=torch.float32, device="cpu")
