"""MLP: a plain multilayer perceptron, the network of most papers on feedback alignment.

embed: the pixels as a vector, without weights.  Block l: one hidden layer, f_l(h) = φ(norm(W_l h + b_l)), with φ the
``activation``, the optional BatchNorm before it and dropout of its output.  Readout: a linear head.

Taps are the input h_0 and the outputs h_1 … h_L of the hidden layers. There is no skip: h_{l+1} = f_l(h_l). A block's
signal is at its output, so the measured taps are exactly the hidden layers. The signal at h_0 teaches nothing. With
frozen blocks only the readout learns, on random features.

The loss is that of the ``criterion``, for each sample and with t = onehot(y). With ``mse``, t may also be any vector:

    ce    −log softmax(z)_y                 cross-entropy; e = softmax(z) − t
    bce   Σ_c −t_c log σ(z_c) − (1 − t_c) log(1 − σ(z_c)), one sigmoid for each class; e = σ(z) − t
    mse   ½ ‖z − t‖²                        with a linear output; e = z − t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, batch_norm, empty, linear, new_batch_norm, normal, output_error, target
from faudit.settings import number, one_of, setting, sizes, switch

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "relu": F.relu, "leaky-relu": F.leaky_relu, "sigmoid": torch.sigmoid, "linear": lambda z: z,
}  # fmt: skip


@dataclass(frozen=True)
class MLP(Net):
    """A multilayer perceptron without skips."""

    sizes: tuple[int, ...] = setting((256, 256), sizes, "units of each hidden layer, from the input on")
    activation: str = setting(
        "tanh",
        one_of(("tanh", "relu", "leaky-relu", "sigmoid", "linear")),
        "φ: tanh, relu, leaky-relu, sigmoid or linear",
    )
    criterion: str = setting(
        "ce", one_of(("ce", "bce", "mse")), "loss: ce, bce (one sigmoid for each class) or mse (½ squared error)"
    )
    weight_init: str = setting(
        "default",
        one_of(("default", "glorot", "he", "normal", "small")),
        "start of the weights: default (torch's), glorot or he (uniform), normal (N(0, 1/(n_in + n_out))), "
        "or small (U(±0.01))",
    )
    dropout: float = setting(0.0, number(0.0, below=1.0), "share of each hidden layer that a training step drops")
    batch_norm: bool = setting(False, switch, "a BatchNorm before each activation")
    no_bias: bool = setting(False, switch, "leave out the biases of the layers")

    def __post_init__(self) -> None:
        if not self.sizes:
            raise ConfigError("sizes: expected at least one hidden layer, got none")

    @property
    def blocks(self) -> int:
        return len(self.sizes)

    @property
    def signals(self) -> int:
        return self.blocks + 1

    @property
    def fits_vectors(self) -> bool:
        return self.criterion == "mse"

    @property
    def least_batch(self) -> int:
        return 2 if self.batch_norm else 1

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        params: dict[str, Tensor] = {}
        for l, (inputs, outputs) in enumerate(pairwise((prod(self.sample_shape), *self.sizes))):
            params |= self._layer(generator, f"blocks.{l}", inputs=inputs, outputs=outputs)
            if self.batch_norm:
                params |= new_batch_norm(f"blocks.{l}.norm", outputs)
        return params | self._layer(generator, "readout", inputs=self.sizes[-1], outputs=self.classes)

    def _layer(self, generator: torch.Generator, name: str, *, inputs: int, outputs: int) -> dict[str, Tensor]:
        """Weight and bias of one layer; the bias is drawn even where it is left out."""
        weight, bias = drawn(self.weight_init, generator, inputs=inputs, outputs=outputs)
        return {f"{name}.weight": weight} | ({} if self.no_bias else {f"{name}.bias": bias})

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return x.flatten(1)

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        return self.activated(block, self.driven(params, block, h))

    def driven(self, params: Params, block: int, h: Tensor) -> Tensor:
        """The pre-activations of a hidden layer, norm(W_l h + b_l)."""
        name = f"blocks.{block}"
        z = F.linear(h, params[f"{name}.weight"], params.get(f"{name}.bias"))
        return batch_norm(self.training, params, f"{name}.norm", z) if self.batch_norm else z

    def activated(self, block: int, z: Tensor) -> Tensor:
        """The output of a hidden layer from its pre-activations."""
        return self.dropped(ACTIVATIONS[self.activation](z), f"blocks.{block}", rate=self.dropout)

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return F.linear(h, params["readout.weight"], params.get("readout.bias"))

    def loss(self, logits: Tensor, y: Tensor, *, reduction: str = "mean") -> Tensor:
        if self.criterion == "ce":
            return F.cross_entropy(logits, y, reduction=reduction)
        targets = target(y, logits)
        if self.criterion == "bce":
            losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(dim=1)
        else:
            losses = 0.5 * (logits - targets).square().sum(dim=1)
        return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()

    def output_error(self, logits: Tensor, y: Tensor) -> Tensor:
        if self.criterion == "ce":
            return output_error(logits, y)
        return (torch.sigmoid(logits) if self.criterion == "bce" else logits) - target(y, logits)


def drawn(how: str, generator: torch.Generator, *, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of a layer, in one of five ways.

    ``default``: torch's, both U(±1/√inputs).  ``glorot``: weight U(±√(6/(inputs + outputs))), bias 0.
    ``he``: weight U(±√(6/inputs)), bias 0.  ``normal``: both N(0, 1/(inputs + outputs)).  ``small``: weight U(±0.01),
    bias 0.
    """
    if how == "default":
        return linear(generator, inputs=inputs, outputs=outputs)
    if how == "normal":
        std = (inputs + outputs) ** -0.5
        return normal(generator, outputs, inputs, std=std), normal(generator, outputs, std=std)
    bounds = {"glorot": (6.0 / (inputs + outputs)) ** 0.5, "he": (6.0 / inputs) ** 0.5, "small": 0.01}
    bound = bounds[how]
    return empty(outputs, inputs).uniform_(-bound, bound, generator=generator), empty(outputs).zero_()
