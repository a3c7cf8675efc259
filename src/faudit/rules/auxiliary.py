"""What rules with an auxiliary net share: the net, its settings and its training.

The auxiliary net reads a state, its place in the net and the output error:

    A(h, t, e) = W_out·GELU(… GELU(W_in [LN(h), τ(t), e] + b_in) …) + b_out,   t = l/L,

with ``auxiliary_depth`` hidden layers of ``auxiliary_width``. τ(t) holds sin and cos of 2^k π t for k = 0 … 3. One net
serves all taps. Taps of different widths have their own columns of W_in. Weights are drawn as in ``nn.Linear``.

Its weights are state of the rule ("aux.…"). They are trained by a loss of their own with Adam, cut from the graph of
the main net. The main net learns as under every block-local rule, from the credit that the auxiliary net gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import cos, pi, sin
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, linear
from faudit.rules.local import LocalRule
from faudit.rules.rule import Group, State
from faudit.settings import number, setting, whole

TIMES = 8  # the size of τ(t)


@dataclass(frozen=True)
class AuxiliaryRule(LocalRule):
    """Base class of block-local rules whose credit comes from an auxiliary net; a subclass adds ``own_loss``."""

    learns_feedback: ClassVar[bool] = True

    auxiliary_width: int = setting(256, whole(1, 65_536), "features of a hidden layer of the auxiliary net")
    auxiliary_depth: int = setting(3, whole(1, 64), "hidden layers of the auxiliary net")
    auxiliary_lr: float = setting(1e-3, number(0.0, above=True), "learning rate of the auxiliary net, under Adam")

    def trains_state(self, name: str) -> bool:
        return name.startswith("aux.")

    def is_feedback(self, name: str) -> bool:
        return name.startswith(("aux.", "B."))

    def groups(self, names: Collection[str]) -> list[Group]:
        own = tuple(name for name in names if self.trains_state(name))
        return [*super().groups(names), Group(own, optimizer="adam", lr=self.auxiliary_lr, weight_decay=0.0)]

    def new_auxiliary(
        self, generator: torch.Generator, widths: Iterable[int], *, inputs: int, outputs: int
    ) -> dict[str, Tensor]:
        """New weights for states of these widths and ``inputs`` further inputs."""
        hidden = self.auxiliary_width
        drawn: dict[str, Tensor] = {}
        for width in dict.fromkeys(widths):  # one matrix for each width; bias and further columns are the last one's
            weight, drawn["aux.in.bias"] = linear(generator, inputs=width + inputs, outputs=hidden)
            drawn[f"aux.in.{width}.weight"] = weight[:, :width].contiguous()
            drawn["aux.in.weight"] = weight[:, width:].contiguous()
        for k in range(1, self.auxiliary_depth):
            drawn[f"aux.{k}.weight"], drawn[f"aux.{k}.bias"] = linear(generator, inputs=hidden, outputs=hidden)
        drawn["aux.out.weight"], drawn["aux.out.bias"] = linear(generator, inputs=hidden, outputs=outputs)
        return drawn

    def auxiliary(self, state: State, h: Tensor, *beside: Tensor, name: str = "aux") -> Tensor:
        """A(h, …) at states […, n, features] and further inputs that follow one another, each [n, size] or [size]."""
        width = h.shape[-1]
        rest = torch.cat([one.expand(h.shape[-2], -1) for one in beside], dim=1)
        z = F.linear(F.layer_norm(h, (width,)), state[f"{name}.in.{width}.weight"])
        z = z + F.linear(rest, state[f"{name}.in.weight"], state[f"{name}.in.bias"])
        for k in range(1, self.auxiliary_depth):
            z = F.linear(F.gelu(z), state[f"{name}.{k}.weight"], state[f"{name}.{k}.bias"])
        return F.linear(F.gelu(z), state[f"{name}.out.weight"], state[f"{name}.out.bias"])


def time_of(net: Net, tap: int, like: Tensor) -> Tensor:
    """τ(l/L) of a tap, [8]."""
    angles = [2**k * pi * tap / net.blocks for k in range(TIMES // 2)]
    return like.new_tensor([wave(angle) for wave in (sin, cos) for angle in angles])
