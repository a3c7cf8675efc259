"""Frozen blocks: some blocks keep their initial weights; the rest of the net trains.

With every block frozen this is the control of the depth check, ``frozen-x`` for a rule x. With the first blocks frozen
it is a rung of the depth ladder (``--train-last K``). Both can be derived from any rule. The rule teaches the embedding
as usual: by ã_0 under DFA, by B_e c_0 under FA, through the frozen blocks under BP. The true loss teaches the readout.
A frozen block gets no signal, so its credit is zero and its Γ is undefined. The entry at tap 0 is the signal of the
embedding. The penalty affects the embedding only under BP, because the local rules cut the graph between the embedding
and the branches. The derived rule has the fields and the state of its rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, part
from faudit.rules.rule import Rule, State, Step


def outside_blocks(name: str) -> bool:
    """Whether a parameter belongs to the embedding or the readout."""
    return not name.startswith("blocks.")


def block_of(name: str) -> int:
    """The block of a parameter that belongs to one."""
    return int(part(name).removeprefix("blocks."))


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
    return frozen_before(kind, None)


@cache
def frozen_before(kind: type[Rule], first: int | None) -> type[Rule]:
    """A rule that trains no block before ``first``; with None it trains no block at all."""

    @dataclass(frozen=True)
    class Frozen(kind):  # type: ignore[misc, valid-type]  # mypy takes no argument for a base class
        trains_blocks: ClassVar[bool] = first is not None

        def trains(self, name: str) -> bool:
            moves = outside_blocks(name) or (first is not None and block_of(name) >= first)
            return moves and super().trains(name)

        def credit(
            self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
        ) -> list[Tensor]:
            credits = super().credit(net, params, state, taps, logits, y)
            taught = {net.taught_at(l) for l in range(net.blocks) if first is not None and l >= first}
            if 0 not in taught:
                credits[0] = self.embedding_credit(net, state, credits[0])
            return [signal if tap in taught | {0} else torch.zeros_like(signal) for tap, signal in enumerate(credits)]

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

    frozen_ones = "its blocks" if first is None else f"the blocks before block {first}"
    Frozen.__name__ = Frozen.__qualname__ = f"Frozen{kind.__name__}"
    Frozen.__doc__ = f"{kind.__name__}; {frozen_ones} keep their initial weights."
    return Frozen
