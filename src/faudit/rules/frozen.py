"""Frozen blocks: the blocks keep their initial weights; embedding and readout train.

This is the control of the depth check. It can be derived from any rule. The rule teaches the embedding as usual: by ã_0
under DFA, by c_0 under FA, through the frozen blocks under BP. The true loss teaches the readout. A frozen
block gets no signal, so its credit is zero and its Γ is undefined. The entry at tap 0 is the signal of the embedding.
The penalty affects the embedding only under BP, because the local rules cut the graph between the embedding and the
branches. A control has the fields and the state of its rule.
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
    """The signal of the embedding, and zeros for the blocks."""
    return [credits[0], *(torch.zeros_like(credit) for credit in credits[1:])]


@cache  # one class per rule, so that controls with equal fields compare equal
def frozen(kind: type[Rule]) -> type[Rule]:
    """The control of a rule, as a class; a rule whose blocks do not train is its own control."""
    if not kind.trains_blocks:
        return kind
    if kind.no_control is not None:
        raise ConfigError(
            f"{kind.__name__} has no frozen control: {kind.no_control}. "
            f"Train {kind.__name__} alone: the depth check is then not measured."
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
            step: Step = super().step(net, params, state, x, y, generator=generator)
            # A rule may return a gradient for every parameter; those of its own state stay.
            kept = {name: grad for name, grad in step.grads.items() if name in state or self.trains(name)}
            return replace(step, grads=kept)

    Frozen.__name__ = Frozen.__qualname__ = f"Frozen{kind.__name__}"
    Frozen.__doc__ = f"{kind.__name__} with blocks that keep their initial weights."
    return Frozen
