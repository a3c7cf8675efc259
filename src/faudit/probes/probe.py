"""The probe contract: a network and a batch in, numbers out, and nothing else changed.

Weights, ``.grad``, buffers and every generator are bit-identical with and without a probe. The passes that most
probes need are made once and shared: a ``Reading`` is a network on a batch, and computes taps, gradients and credits
when first asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace
from faudit.probes import Entry, Need, Tier
from faudit.rng import derived
from faudit.rules.bp import tap_gradients, traced_gradients
from faudit.rules.rule import Rule, State
from faudit.tensors import norms

ROUNDING = 100  # rounding steps of 1 below which an output error is lost in the network's own precision


@dataclass(eq=False)
class Reading:
    """A network, the rule that teaches it, and the batch they are measured on."""

    net: Net
    rule: Rule
    params: Params
    state: State
    x: Tensor
    y: Tensor
    seed: int = 0
    initial: Params | None = None  # the weights that training began with, where they are known

    def __post_init__(self) -> None:
        # Detached: a probe cannot write a gradient even by mistake.
        self.params = {name: value.detach() for name, value in self.params.items()}
        self.state = {name: value.detach() for name, value in self.state.items()}

    @property
    def offers(self) -> frozenset[Need]:
        """What a probe may need: all but classes if the targets are vectors, and the credit of a rule without one."""
        given: dict[Need, bool] = {
            "classes": not self.y.is_floating_point(),
            "credit": self.rule.no_credit is None,
            "parameters": True,
            "rule": True,
        }
        return frozenset(need for need, is_given in given.items() if is_given)

    @cached_property
    def trace(self) -> Trace:
        """One forward pass, without a graph."""
        with torch.no_grad():
            return self.net.trace(self.params, self.x)

    @cached_property
    def losses(self) -> Tensor:
        """The loss of each sample, [n]."""
        return self.loss(self.trace.logits)

    def loss(self, logits: Tensor) -> Tensor:
        """The loss of each sample given its logits, [n]."""
        return self.net.loss(logits, self.y, reduction="none")

    @torch.no_grad()
    def losses_from(self, tap: int, h: Tensor) -> Tensor:
        """The loss of each sample had this tap been h, [n]."""
        return self.loss(self.net.onward(self.params, tap, h))

    @cached_property
    def errors(self) -> Tensor:
        """∂ℓ_i/∂logits of each sample, the output error."""
        return self.net.output_error(self.trace.logits, self.y)

    @cached_property
    def errors_in_double(self) -> Tensor:
        """The output error of each sample in float64, from the network's own logits: no second forward pass."""
        return self.net.output_error(self.trace.logits.double(), self.y)

    @cached_property
    def fitted(self) -> Tensor:
        """Which samples have an output error below the network's own precision, bool [n].

        The network cannot hold the direction of such an error, so its credit and its gradient are rounding. Γ, ρ,
        nudging, the distribution of Γ and the referee count these samples and leave them out. A NaN is no small error.
        """
        sizes = norms(self.errors_in_double.reshape(len(self.y), -1))
        return sizes < ROUNDING * torch.finfo(self.trace.logits.dtype).eps

    @cached_property
    def predicted(self) -> Tensor:
        """The scores of the classes by which the rule predicts, [n, C]."""
        if type(self.rule).predict is Rule.predict:
            return self.trace.logits  # the same, without another pass
        with torch.no_grad():
            return self.rule.predict(self.net, self.params, self.state, self.x)

    @cached_property
    def taps(self) -> list[Tensor]:
        """h_0 … h_L as they are measured, [n, features]."""
        return [self.net.tap(h) for h in self.trace.taps]

    @cached_property
    def gradients(self) -> list[Tensor]:
        """∂ℓ_i/∂h_l of each sample's own loss at every tap: independent of how many samples are measured together."""
        if "trace" in self.__dict__:
            gradients = tap_gradients(self.net, self.params, self.trace.taps[0], self.y)
        else:  # asked before the trace: one pass gives both
            self.__dict__["trace"], gradients = traced_gradients(self.net, self.params, self.x, self.y)
        return [self.net.tap(gradient) for gradient in gradients]

    @cached_property
    def credits(self) -> list[Tensor]:
        """What the rule teaches each block with, one entry per block."""
        return self.credits_under(self.state)

    def credits_under(self, state: State) -> list[Tensor]:
        """The same, had the rule another state."""
        signals = self.rule.credit(self.net, self.params, state, self.trace.taps, self.trace.logits, self.y)
        return [signals[self.net.taught_at(l)] for l in range(self.net.blocks)]

    def fresh_credits(self, draws: int) -> list[list[Tensor]]:
        """What each block would be taught with under feedback that knows nothing; none for a rule without feedback.

        Fixed feedback is drawn anew. Learned feedback is drawn anew in every other draw; in the rest its own rows are
        permuted, so that a null also keeps what learning did to sizes and to rank.
        """
        if not any(self.rule.is_feedback(name) for name in self.state):
            return []
        return [self.credits_under(self._chance_state(draw)) for draw in range(draws)]

    def _chance_state(self, draw: int) -> dict[str, Tensor]:
        if self.rule.learns_feedback and draw % 2:
            generator = self.generator(f"feedback.{draw}")
            feedback = [name for name in self.state if self.rule.is_feedback(name)]
            orders = {name: torch.randperm(len(self.state[name]), generator=generator) for name in feedback}
            return {name: value[orders[name]] if name in orders else value for name, value in self.state.items()}
        return self.fresh_state(f"feedback.{draw}")

    def fresh_state(self, name: str) -> dict[str, Tensor]:
        """The state with feedback drawn anew by the generator of this name."""
        state = self.rule.fresh(self.net, self.state, self.x[:1], self.generator(name))
        return {name: value.to(self.x) if value.is_floating_point() else value for name, value in state.items()}

    @cached_property
    def doubled(self) -> Reading:
        """The same network on the same batch in float64: what its own precision is held against."""
        params = {name: value.double() for name, value in self.params.items()}
        state = {name: value.double() if value.is_floating_point() else value for name, value in self.state.items()}
        return Reading(self.net, self.rule, params, state, self.x.double(), self.y, self.seed, self.initial)

    def generator(self, name: str) -> torch.Generator:
        """A fresh generator for one purpose of a probe, fixed by the seed: measuring shifts no generator of the run."""
        return torch.Generator().manual_seed(derived(self.seed, f"probe.{name}"))


class Probe(ABC):
    """The face of every probe. What it declares must be literals: ``PROBES.declared`` reads them from the source."""

    entries: ClassVar[tuple[Entry, ...]]  # what ``measure`` returns, by name and shape
    tier: ClassVar[Tier]  # "cheap" runs at every logged epoch, "full" at the end or on request
    version: ClassVar[int]  # one more when the same network gets other numbers: kept measurements are made again
    needs: ClassVar[tuple[Need, ...]] = ()  # what a reading must offer

    @abstractmethod
    def measure(self, reading: Reading) -> dict[str, Any]:
        """The row entries of this probe."""


def measured(probe: type[Probe], reading: Reading) -> dict[str, Any]:
    """The entries of a probe; undefined ones if the reading lacks what it needs, such as the credit of the rule."""
    if reading.offers.issuperset(probe.needs):
        return probe().measure(reading)
    return {entry.name: undefined(entry, reading.net.blocks) for entry in probe.entries}


def undefined(entry: Entry, blocks: int) -> list[None] | None:
    """An entry that is not defined, in its shape."""
    return None if entry.shape == "scalar" else [None] * min(entry.lengths(blocks), default=blocks)
