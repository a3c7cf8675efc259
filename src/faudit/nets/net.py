"""The network contract: an embedding, blocks, a readout, as pure functions of named parameters.

h_0 = embed(x);  h_{l+1} = join(h_l, f_l(h_l)), f_l = branch l;  logits = readout(h_L).  Taps are h_0 … h_L.

A net is a frozen value that holds sizes, never weights: the weights are a dict of tensors by name, so the same
function serves float32 and float64, one seed or many stacked, eager or compiled. A name starts with its part:
``embed.``, ``blocks.<l>.`` or ``readout.``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class Trace:
    """One forward pass, with what a rule or a probe may look at.

    ``taps[l]`` is h_l as block l read it, ``embedded`` is h_0 with its graph, ``branches[l]`` is f_l(h_l).
    """

    embedded: Tensor
    taps: list[Tensor]
    branches: list[Tensor]
    logits: Tensor


@dataclass(frozen=True)
class Net(ABC):
    """The face of every network; further fields of a subclass are its settings, named as in the config."""

    sample_shape: tuple[int, ...]
    classes: int

    @property
    @abstractmethod
    def blocks(self) -> int:
        """How many blocks there are, L."""

    @abstractmethod
    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Fresh float32 weights by name, drawn from the generator alone."""

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
        """(h_l, f_l) → h_{l+1}: their sum, or f_l alone where there is no skip."""

    @property
    def signals(self) -> int:
        """How many taps carry a teaching signal: h_0 … h_{L−1} where a skip keeps all states in one space.

        Where there is none, a block's signal lives at its output, so h_L carries one too and this is L + 1.
        """
        return self.blocks

    @final
    def taught_at(self, block: int) -> int:
        """The tap whose signal teaches block l and whose gradient that signal is held against; the embedding's is 0."""
        return block + self.signals - self.blocks

    @property
    def is_pure(self) -> bool:
        """Whether its functions touch nothing but their arguments, so that several threads may call them at once."""
        return True

    def tap(self, h: Tensor) -> Tensor:
        """What is measured of a hidden state, [n, features]: here all of it."""
        return h.flatten(1)

    def spread(self, signal: Tensor, like: Tensor) -> Tensor:
        """A signal [n, features] in the tap's coordinates → the shape of the hidden state or branch it teaches."""
        return signal.view_as(like)

    def lift(self, shift: Tensor, like: Tensor) -> Tensor:
        """A displacement [n, features] of the tap → the displacement of the whole hidden state."""
        return shift.view_as(like)

    def tap_widths(self, sample: Tensor) -> list[int]:
        """Features of each tap, h_0 … h_L, read off a forward pass."""
        return list(widths(self, tuple(sample.shape[1:])))

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """x → logits."""
        return self.onward(params, 0, self.embed(params, x))

    def onward(self, params: Params, block: int, h: Tensor) -> Tensor:
        """h_l → logits, from the input of the given block on."""
        for l in range(block, self.blocks):
            h = self.join(h, self.branch(params, l, h))
        return self.readout(params, h)

    def trace(self, params: Params, x: Tensor) -> Trace:
        """One forward pass with the whole graph, every step of it kept."""
        h = embedded = self.embed(params, x)
        taps, branches = [h], []
        for l in range(self.blocks):
            branches.append(self.branch(params, l, h))
            h = self.join(h, branches[l])
            taps.append(h)
        return Trace(embedded, taps, branches, self.readout(params, h))

    def trace_cut(self, params: Params, x: Tensor) -> Trace:
        """The same numbers with the graph cut at every tap: nothing a block computes reaches an earlier part."""
        embedded = self.embed(params, x)
        h = embedded.detach()
        taps, branches = [h], []
        for l in range(self.blocks):
            branches.append(self.branch(params, l, h))
            h = self.join(h, branches[l].detach())
            taps.append(h)
        return Trace(embedded, taps, branches, self.readout(params, h))


@cache
def widths(net: Net, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Features of each tap for samples of a shape; a net is a value, so it is asked once."""
    params = net.init(torch.Generator().manual_seed(0))
    with torch.no_grad():
        return tuple(net.tap(h).shape[1] for h in net.trace(params, empty(1, *shape).zero_()).taps)


@cache
def part(name: str) -> str:
    """The part a parameter belongs to: "embed", "readout" or "blocks.<l>"."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] == "blocks" else words[0]


def linear(generator: torch.Generator, *, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """Weight and bias as ``nn.Linear`` draws them, both U(±1/√inputs), but from a generator of our own."""
    bound = inputs**-0.5
    weight = empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
    return weight, empty(outputs).uniform_(-bound, bound, generator=generator)


def normal(generator: torch.Generator, *shape: int, std: float) -> Tensor:
    """N(0, std²) of a shape."""
    return empty(*shape).normal_(0.0, std, generator=generator)


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x).

    In float64, where there is no graph to keep, by ``torch.erf``: the numbers of ``F.gelu`` to the last digits, and
    half its time on the large states that an audit is made for.
    """
    if x.dtype != torch.float64 or x.requires_grad:
        return F.gelu(x)
    return torch.erf(x * sqrt(0.5)).add_(1).mul_(x).mul_(0.5)


def ones_zeros(width: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of a fresh LayerNorm."""
    return empty(width).fill_(1.0), empty(width).fill_(0.0)


def empty(*shape: int) -> Tensor:
    """float32 on the CPU whatever torch's defaults are: the same seed gives the same numbers everywhere."""
    return torch.empty(*shape, dtype=torch.float32, device="cpu")
