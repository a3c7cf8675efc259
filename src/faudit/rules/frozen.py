"""Frozen blocks: the blocks stay as they were drawn; embedding and readout train.

The control of the depth check, derived from any rule: the embedding is taught as that rule teaches it (by ã_0 under
DFA, by c_0 under FA, through the frozen blocks under BP), the readout by the true cross-entropy. A frozen block is
taught nothing, so its credit is zero and its Γ undefined; the entry at tap 0 is the embedding's signal. The penalty
reaches the embedding under BP only: the local rules cut the graph between the embedding and the branches. A control
has the fields of its rule and stores what its rule stores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params
from faudit.rules.rule import Rule, State, Step


def outside_blocks(name: str) -> bool:
    """Whether a parameter belongs to the embedding or the readout."""
    return not name.startswith("blocks.")


def only_first(credits: list[Tensor]) -> list[Tensor]:
    """The embedding's signal, and zeros for every block."""
    return [credits[0], *(torch.zeros_like(credit) for credit in credits[1:])]


@cache  # one class for each rule, so that equal controls are equal values
def frozen(kind: type[Rule]) -> type[Rule]:
    """The control of a rule, as a class; a rule whose blocks do not train is its own."""
    if not kind.trains_blocks:
        return kind
    if kind.no_control is not None:
        raise ConfigError(
            f"{kind.__name__} has no frozen control: {kind.no_control}. "
            f"Train {kind.__name__} alone: the depth check then says that it was not measured."
        )

    @dataclass(frozen=True)
    class Frozen(kind):  # type: ignore[misc, valid-type]  # mypy takes no argument for a base class
        trains_blocks: ClassVar[bool] = False

        def trains(self, name: str) -> bool:
            return outside_blocks(name) and super().trains(name)

        def credit(
            self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
        ) -> list[Tensor]:
            return only_first(super().credit(net, params, state, taps, logits, y))

        def step(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Step:
            step: Step = super().step(net, params, state, x, y)
            # A rule with a step of its own may give a gradient for everything.
            return replace(step, grads={name: grad for name, grad in step.grads.items() if self.trains(name)})

    Frozen.__name__ = Frozen.__qualname__ = f"Frozen{kind.__name__}"
    Frozen.__doc__ = f"{kind.__name__} with blocks that stay as they were drawn."
    return Frozen
