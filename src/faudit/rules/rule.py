"""The interface of a rule: a batch in, a pseudo-gradient for each parameter out.

A rule is a frozen value whose fields are its settings. Its state is a separate dict of named tensors, which the
checkpoint saves like the weights. Feedback matrices are named ``B.…`` after what they teach or replace. Training calls
for every batch

    step = rule.step(net, params, state, x, y)      the gradients; a pure function
    the optimizer updates every parameter, and every tensor of the state, that has a gradient in ``step.grads``
    state.update(rule.after_update(…))              what follows an update without a gradient

and nothing else. The loop, the probes, the audit and the figures never ask which rule they have. A rule must define
``step`` and ``credit``; every other method has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace, is_buffer
from faudit.rules import Card

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Step:
    """The result of one batch: mean loss, logits, and a gradient for each parameter or state tensor that it trains."""

    loss: Tensor
    logits: Tensor
    grads: dict[str, Tensor]


@dataclass(frozen=True)
class Group:
    """Tensors that a rule trains with an optimizer or rate of its own; None stands for that of the run.

    The run's schedule multiplies every rate.
    """

    names: tuple[str, ...]
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float | None = None


@dataclass(frozen=True)
class Rule(ABC):
    """Base class of rules."""

    card: ClassVar[Card]  # the method card; literals, because it is read without torch
    trains_blocks: ClassVar[bool] = True  # False if the blocks keep their initial weights
    learns_feedback: ClassVar[bool] = False  # True if the feedback changes while it trains
    no_control: ClassVar[str | None] = None  # the reason, if the rule can have no frozen control
    no_credit: ClassVar[str | None] = None  # the reason, if the rule has no signal at the taps
    no_vectors: ClassVar[str | None] = None  # the reason, if the targets must be classes

    def refusal(self, net: Net) -> str | None:
        """The reason why the rule cannot train a net; None if it can."""
        return None

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """A new float32 state for a net, drawn from this generator only; ``sample`` is a normalised batch."""
        return {}

    def trains(self, name: str) -> bool:
        """Whether the rule updates the parameter of this name."""
        return not is_buffer(name)

    def trains_state(self, name: str) -> bool:
        """Whether the state tensor of this name gets gradients from ``step``; the optimizer then holds it."""
        return False

    def groups(self, names: Collection[str]) -> list[Group]:
        """The trained tensors that need an optimizer or rate of their own; the run's optimizer holds all others."""
        return []

    @abstractmethod
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
        """The gradients of one batch; changes no argument. Whatever it draws comes from ``generator``.

        ``params``, and the tensors of the state that the rule trains, require grad. A generator must be given if the
        rule draws.
        """

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """New values for tensors of the state, called after each update and without gradients."""
        return {}

    def predict(self, net: Net, params: Params, state: State, x: Tensor) -> Tensor:
        """The scores of the classes by which accuracy is judged, [n, C]; by default the logits of the net."""
        return net.forward(params, x)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        """The signal at each of the net's teaching taps, before normalisation, [n, features].

        It is zero where nothing is taught. Entry ``net.taught_at(l)`` teaches block l. Entry 0 teaches the embedding
        too, by ``embedding_credit``. Γ, ρ and nudging measure this signal. A rule without one sets ``no_credit``.
        """
        raise NotImplementedError(self.no_credit or f"{type(self).__name__} defines neither credit nor no_credit")

    def embedding_credit(self, net: Net, state: State, credit: Tensor) -> Tensor:
        """The signal that teaches the embedding, from the credit of tap 0; by default that credit itself."""
        return credit

    def is_feedback(self, name: str) -> bool:
        """Whether the state tensor of this name is feedback, which fresh draws replace in the null of Γ."""
        return name.startswith("B.")

    def fresh(self, net: Net, state: State, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """The state with feedback that knows nothing of the weights: new draws from its initial distribution."""
        drawn = self.init(net, sample, generator)
        return {name: drawn[name] if self.is_feedback(name) else value for name, value in state.items()}

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        """The forward weight that each feedback matrix replaces, by the name of the matrix; empty if there is none."""
        return {}


@dataclass(frozen=True)
class Objective:
    """The scalar whose gradient is a rule's update, and the true loss and logits of the same pass."""

    value: Tensor
    loss: Tensor
    logits: Tensor


def descended(rule: Rule, objective: Objective, params: Params, state: State | None = None) -> Step:
    """The step of a rule whose update is the gradient of one objective; of a given state what the rule trains."""
    trained = trained_by(rule, params, state or {})
    grads = torch.autograd.grad(objective.value, list(trained.values()))
    return Step(objective.loss.detach(), objective.logits.detach(), dict(zip(trained, grads, strict=True)))


def trained_by(rule: Rule, params: Params, state: State) -> dict[str, Tensor]:
    """The parameters and the tensors of the state that a rule trains, by name."""
    trained = {name: value for name, value in params.items() if rule.trains(name)}
    return trained | {name: value for name, value in state.items() if rule.trains_state(name)}


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ over all entries, as a scalar."""
    return torch.dot(a.reshape(-1), b.reshape(-1))


def branch_penalty(trace: Trace, penalty: float) -> Tensor | float:
    """λ · mean over the batch of Σ_i f_l(h_l)_i², summed over the blocks."""
    if penalty == 0.0:
        return 0.0
    total = sum((inner(branch, branch) for branch in trace.branches), start=trace.logits.new_zeros(()))
    return penalty / len(trace.logits) * total
