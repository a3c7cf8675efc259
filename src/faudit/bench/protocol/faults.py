"""The faults of the benchmark: rules that are wrong on purpose, and weights or feedback that are changed.

They are in no registry, since nobody should train with them. Only ``WeightTransport`` is correct: it is the limit that
the local rules approximate. Each plant takes an experiment and returns it with the fault, before the first step or
after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from faudit.experiment import Experiment, build_optimizer
from faudit.nets.net import Net, Params
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.fa import FA
from faudit.rules.frozen import outside_blocks
from faudit.rules.local import LocalRule
from faudit.rules.rule import Rule, State, Step

Plant = Callable[[Experiment], Experiment]


@dataclass(frozen=True)
class WeightTransport(LocalRule):
    """B = Wᵀ at every step: each block is trained with the exact gradient at its tap, without normalisation.

    A large ε removes the normalisation: a/(RMS(a) + ε) is then a constant times a, and AdamW ignores the constant.
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
    """Block-level FA with the wrong sign of the output error."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [-credit for credit in super().credit(net, params, state, taps, logits, y)]


@dataclass(frozen=True)
class FeedbackUnused(DFA):
    """Draws and saves feedback matrices, but trains with the true gradient."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return BP().credit(net, params, state, taps, logits, y)


@dataclass(frozen=True)
class FeedbackRedrawn(DFA):
    """Draws new feedback before every step, so the weights have nothing to align with."""

    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0), compare=False)

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
        for name, value in self.init(net, x[:1], self.generator).items():
            state[name].copy_(value)  # writing in a step is the fault itself
        return super().step(net, params, state, x, y, generator=generator)


@dataclass(frozen=True)
class BlocksLeftOut(DFA):
    """DFA that does not train the blocks."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)


@dataclass(frozen=True)
class BlocksLeftOutBP(BP):
    """BP that does not train the blocks."""

    def trains(self, name: str) -> bool:
        return outside_blocks(name)


@dataclass(frozen=True)
class HeadKept(BP):
    """BP that does not train the head."""

    def trains(self, name: str) -> bool:
        return name != "readout.head.weight"


def taught_by(kind: type[Rule]) -> Plant:
    """A plant that replaces the rule of an experiment, its state and its optimizer by those of the new rule.

    Settings of the configuration that are not at their default stay.
    """

    def plant(experiment: Experiment) -> Experiment:
        config, own = experiment.config, {entry.name for entry in fields(kind)}
        given = {name: value for name, value in config.changed.items() if name in config.settings_of("rule")}
        rule = kind(**{name: value for name, value in given.items() if name in own})
        state = rule.init(experiment.net, sample_of(experiment), experiment.state.generators["feedback"])
        for name, value in state.items():
            value.requires_grad_(rule.trains_state(name))
        optimizer = build_optimizer(config, rule, {**experiment.state.params, **state})
        return replace(experiment, rule=rule, state=replace(experiment.state, rule_state=state, optimizer=optimizer))

    return plant


def sample_of(experiment: Experiment) -> Tensor:
    """A small normalised batch, for the shapes of a rule's state."""
    return experiment.dataset.normalise(experiment.dataset.train_x[:2])


def changed(experiment: Experiment, change: Callable[[dict[str, Tensor]], object]) -> Experiment:
    """Change the weights of an experiment in place before training. The changed weights count as its initial ones."""
    with torch.no_grad():
        change(experiment.state.params)
    began = {name: value.detach().clone() for name, value in experiment.state.params.items()}
    return replace(experiment, initial=began)


def exploded(experiment: Experiment) -> Experiment:
    """Multiply one branch by 1e7: the stream explodes there, and every LayerNorm hides it."""
    return changed(experiment, lambda params: params["blocks.1.w2.weight"].mul_(1e7))


def offset(experiment: Experiment) -> Experiment:
    """Shift the stream by 1e7, where the steps of float32 are as large as the states. Every LayerNorm hides it."""
    return changed(experiment, lambda params: params["embed.bias"].add_(1e7))


def dead_block(experiment: Experiment) -> Experiment:
    """Push the units of block 1 so far below zero that none ever fires: no gradient reaches its matrices."""
    return changed(experiment, lambda params: params["blocks.1.w1.bias"].fill_(-1e3))


def saturated(experiment: Experiment) -> Experiment:
    """Drive every tanh to ±1, where its slope is exactly 0 in float32."""

    def change(params: dict[str, Tensor]) -> None:
        for name, value in params.items():
            if name.endswith("w1.bias"):
                value.copy_(value.sign() * 1e3)

    return changed(experiment, change)


def one_direction(experiment: Experiment) -> Experiment:
    """Give the head rank one and do not train it: every sample's gradient at the last tap lies along one line.

    This needs a network without a terminal LayerNorm, whose own gradient would rotate each sample's differently.
    """

    def change(params: dict[str, Tensor]) -> None:
        head = params["readout.head.weight"]
        head.copy_(torch.outer(head[:, 0] / head[:, 0].norm(), head[0]))

    return replace(changed(experiment, change), rule=HeadKept(penalty=experiment.config.penalty))


def refed(experiment: Experiment, change: Callable[[dict[str, Tensor]], Mapping[str, Tensor]]) -> Experiment:
    """Change the feedback of an experiment in place; ``change`` gets all of it and returns what is new."""
    rule, state = experiment.rule, experiment.state.rule_state
    with torch.no_grad():
        for name, value in change({name: state[name] for name in state if rule.is_feedback(name)}).items():
            state[name].copy_(value)
    return experiment


def feedback_zero(experiment: Experiment) -> Experiment:
    """Set all feedback to zero."""
    return refed(experiment, lambda feedback: {name: torch.zeros_like(value) for name, value in feedback.items()})


def layer_zero(experiment: Experiment) -> Experiment:
    """Set the feedback of one layer in the middle to zero."""
    name = "B.blocks.1.weight"
    return refed(experiment, lambda feedback: {name: torch.zeros_like(feedback[name])})


def swapped(experiment: Experiment) -> Experiment:
    """Replace all feedback by feedback that the network has never seen."""
    state, generator = experiment.state, experiment.state.generators["feedback"]
    fresh = experiment.rule.fresh(experiment.net, state.rule_state, sample_of(experiment), generator)
    return refed(experiment, lambda feedback: {name: fresh[name] for name in feedback})


def permuted(experiment: Experiment) -> Experiment:
    """Permute the rows of all feedback."""
    generator = experiment.state.generators["feedback"]
    return refed(
        experiment,
        lambda feedback: {
            name: value[torch.randperm(len(value), generator=generator)] for name, value in feedback.items()
        },
    )


def exchanged(experiment: Experiment) -> Experiment:
    """Exchange the feedback of two layers of the same shape."""
    one, other = "B.blocks.1.weight", "B.blocks.2.weight"
    return refed(experiment, lambda feedback: {one: feedback[other].clone(), other: feedback[one].clone()})
