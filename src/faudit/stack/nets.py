"""The nets that can be stacked: the functions of ``nets/`` and their gradients, for weights of several runs at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.mlp import ACTIVATIONS, MLP
from faudit.nets.net import Net, Params
from faudit.nets.resmlp import ResMLP
from faudit.stack.layers import aten, each, layer_norm, layer_norm_back, linear, linear_back

Own = TypeVar("Own", bound=Net, covariant=True)
# The gradient at the input of an activation, from that at its output g, the input z and the output a.
SLOPES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "tanh": lambda g, z, a: aten.tanh_backward(g, a),
    "relu": lambda g, z, a: aten.threshold_backward(g, a, 0),
    "leaky-relu": lambda g, z, a: aten.leaky_relu_backward(g, z, 0.01, False),
    "sigmoid": lambda g, z, a: aten.sigmoid_backward(g, a),
    "linear": lambda g, z, a: g,
}


@dataclass(frozen=True)
class Stacked(ABC, Generic[Own]):
    """A net of several runs; ``net`` is that of one run.

    A function with ``_back`` takes the gradient at the output, writes those of the weights that ``grads`` holds, and
    returns that at the input. What it reads of the forward pass is the second result there.
    """

    net: Own

    @abstractmethod
    def embed(self, params: Params, x: Tensor) -> Tensor:
        """x → h_0, [R, n, features]."""

    @abstractmethod
    def embed_back(self, params: Params, x: Tensor, g: Tensor, grads: Params) -> None:
        """The gradients of the embedding."""

    @abstractmethod
    def branch(self, params: Params, block: int, h: Tensor) -> tuple[Tensor, Any]:
        """h_l → f_l(h_l)."""

    @abstractmethod
    def branch_back(
        self, params: Params, block: int, held: Any, g: Tensor, grads: Params, *, inputs: bool
    ) -> Tensor | None:
        """The gradients of a block; that at h_l is computed if ``inputs``."""

    @abstractmethod
    def readout(self, params: Params, h: Tensor) -> tuple[Tensor, Any]:
        """h_L → logits."""

    @abstractmethod
    def readout_back(self, params: Params, held: Any, g: Tensor, grads: Params, *, inputs: bool) -> Tensor | None:
        """The gradients of the readout; that at h_L is computed if ``inputs``."""


class StackedResMLP(Stacked[ResMLP]):
    """ResMLP."""

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return linear(params, "embed", x.flatten(2))

    def embed_back(self, params: Params, x: Tensor, g: Tensor, grads: Params) -> None:
        linear_back(params, "embed", x.flatten(2), g, grads)

    def branch(self, params: Params, block: int, h: Tensor) -> tuple[Tensor, Any]:
        name = f"blocks.{block}"
        normed, held = layer_norm(params, f"{name}.norm", h)
        z = linear(params, f"{name}.w1", normed)
        a = each(F.gelu, z)
        return linear(params, f"{name}.w2", a), (held, normed, z, a)

    def branch_back(
        self, params: Params, block: int, held: Any, g: Tensor, grads: Params, *, inputs: bool
    ) -> Tensor | None:
        name, (normed_of, normed, z, a) = f"blocks.{block}", held
        if not inputs and f"{name}.w1.weight" not in grads:
            return None
        linear_back(params, f"{name}.w2", a, g, grads)
        g = each(aten.gelu_backward, torch.bmm(g, params[f"{name}.w2.weight"]), z)
        linear_back(params, f"{name}.w1", normed, g, grads)
        g = torch.bmm(g, params[f"{name}.w1.weight"])
        return layer_norm_back(params, f"{name}.norm", normed_of, g, grads, inputs=inputs)

    def readout(self, params: Params, h: Tensor) -> tuple[Tensor, Any]:
        normed, held = (h, None) if self.net.no_terminal_norm else layer_norm(params, "readout.norm", h)
        return linear(params, "readout.head", normed), (held, normed)

    def readout_back(self, params: Params, held: Any, g: Tensor, grads: Params, *, inputs: bool) -> Tensor | None:
        normed_of, normed = held
        linear_back(params, "readout.head", normed, g, grads)
        if normed_of is None and not inputs:
            return None
        g = torch.bmm(g, params["readout.head.weight"])
        if normed_of is None:
            return g
        return layer_norm_back(params, "readout.norm", normed_of, g, grads, inputs=inputs)


class StackedMLP(Stacked[MLP]):
    """MLP with the cross-entropy, without dropout and BatchNorm."""

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return x.flatten(2)

    def embed_back(self, params: Params, x: Tensor, g: Tensor, grads: Params) -> None:
        """Nothing: it has no weights."""

    def branch(self, params: Params, block: int, h: Tensor) -> tuple[Tensor, Any]:
        z = linear(params, f"blocks.{block}", h)
        a = each(ACTIVATIONS[self.net.activation], z)
        return a, (h, z, a)

    def branch_back(
        self, params: Params, block: int, held: Any, g: Tensor, grads: Params, *, inputs: bool
    ) -> Tensor | None:
        name, (h, z, a) = f"blocks.{block}", held
        if not inputs and f"{name}.weight" not in grads:
            return None
        g = each(SLOPES[self.net.activation], g, z, a)
        linear_back(params, name, h, g, grads)
        return torch.bmm(g, params[f"{name}.weight"]) if inputs else None

    def readout(self, params: Params, h: Tensor) -> tuple[Tensor, Any]:
        return linear(params, "readout", h), h

    def readout_back(self, params: Params, held: Any, g: Tensor, grads: Params, *, inputs: bool) -> Tensor | None:
        linear_back(params, "readout", held, g, grads)
        return torch.bmm(g, params["readout.weight"]) if inputs else None


def stacked(net: Net) -> Stacked[Net] | None:
    """The form of a net for several runs; None if it has none."""
    if type(net) is ResMLP:
        return StackedResMLP(net)
    if type(net) is MLP and net.criterion == "ce" and not net.dropout and not net.batch_norm:
        return StackedMLP(net)
    return None
