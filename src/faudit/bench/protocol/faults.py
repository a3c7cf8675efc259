"""How the benchmark's networks are spoilt: rules that are wrong on purpose, and weights put wrong before training.

None of these is in a registry: nobody should train with them. ``WeightTransport`` alone is sound, the limit that the
local rules approximate. Each plant takes an experiment as ``prepare`` makes it and returns it spoilt, before the first
step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from faudit.experiment import Experiment
from faudit.nets.net import Net, Params
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.fa import FA
from faudit.rules.frozen import outside_blocks
from faudit.rules.rule import LocalRule, Rule, State, Step

Plant = Callable[[Experiment], Experiment]


@dataclass(frozen=True)
class WeightTransport(LocalRule):
    """B = Wᵀ at every step: each block is taught with the exact gradient at its tap, in its own size.

    A large ε takes the normalisation out: a/(RMS(a) + ε) is then a in other units, to which AdamW is blind.
    """

    credit_eps: float = 1e3

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return BP().credit(net, params, state, taps, logits, y)


@dataclass(frozen=True)
class Flipped(WeightTransport):
    """The exact gradient with the wrong sign."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [-credit for credit in super().credit(net, params, state, taps, logits, y)]


@dataclass(frozen=True)
class FlippedFA(FA):
    """Block-level FA whose error is taken with the wrong sign where it enters."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [-credit for credit in super().credit(net, params, state, taps, logits, y)]


@dataclass(frozen=True)
class FeedbackUnused(DFA):
    """Has feedback matrices, saves them, and teaches with the true gradient all the same."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return BP().credit(net, params, state, taps, logits, y)


@dataclass(frozen=True)
class FeedbackRedrawn(DFA):
    """Draws its feedback anew before every step: there is nothing to align with."""

    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0), compare=False)

    def step(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Step:
        for name, value in self.init(net, x[:1], self.generator).items():
            state[name].copy_(value)  # a step that writes: the fault itself
        return super().step(net, params, state, x, y)


@dataclass(frozen=True)
class BlocksLeftOut(DFA):
    """DFA whose blocks are missing from what is trained."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)


@dataclass(frozen=True)
class BlocksLeftOutBP(BP):
    """BP whose blocks are missing from what is trained."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)


@dataclass(frozen=True)
class HeadKept(BP):
    """BP that leaves the head as it is."""

    def trains(self, name: str) -> bool:
        return name != "readout.head.weight"


def taught_by(kind: type[Rule]) -> Plant:
    """The same experiment with another rule, and with the feedback that this one draws: none where it has none."""

    def plant(experiment: Experiment) -> Experiment:
        rule = kind(penalty=experiment.rule.penalty)
        state = rule.init(
            experiment.net,
            experiment.dataset.normalise(experiment.dataset.train_x[:2]),
            experiment.state.generators["feedback"],
        )
        return replace(experiment, rule=rule, state=replace(experiment.state, rule_state=state))

    return plant


def changed(experiment: Experiment, change: Callable[[dict[str, Tensor]], object]) -> Experiment:
    """The experiment with its weights changed in place before training; that is where its training then began."""
    with torch.no_grad():
        change(experiment.state.params)
    began = {name: value.detach().clone() for name, value in experiment.state.params.items()}
    return replace(experiment, initial=began)


def exploded(experiment: Experiment) -> Experiment:
    """One branch ten million times as long: the stream explodes there, and every LayerNorm hides it."""
    return changed(experiment, lambda params: params["blocks.1.w2.weight"].mul_(1e7))


def offset(experiment: Experiment) -> Experiment:
    """The stream sits at 1e7, where the steps of float32 are as large as the states: every LayerNorm hides that too."""
    return changed(experiment, lambda params: params["embed.bias"].add_(1e7))


def dead_block(experiment: Experiment) -> Experiment:
    """Block 1's units are so far below zero that none ever fires: no gradient reaches its matrices."""
    return changed(experiment, lambda params: params["blocks.1.w1.bias"].fill_(-1e3))


def saturated(experiment: Experiment) -> Experiment:
    """Every tanh is driven to ±1, where its slope is exactly 0 in float32."""

    def change(params: dict[str, Tensor]) -> None:
        for name, value in params.items():
            if name.endswith("w1.bias"):
                value.copy_(value.sign() * 1e3)

    return changed(experiment, change)


def one_direction(experiment: Experiment) -> Experiment:
    """A head of rank one, kept: every sample's gradient at the last tap lies along one line.

    Without a terminal LayerNorm, whose own gradient would turn each sample's another way.
    """

    def change(params: dict[str, Tensor]) -> None:
        head = params["readout.head.weight"]
        head.copy_(torch.outer(head[:, 0] / head[:, 0].norm(), head[0]))

    return replace(changed(experiment, change), rule=HeadKept(penalty=experiment.rule.penalty))
