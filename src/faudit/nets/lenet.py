"""LeNet-5 with ReLU and max-pooling, as in BioTorch's benchmark on MNIST: two convolutions and three linear layers.

embed: conv 5×5 C→6, ReLU, 2×2 max-pool.  Block 0: conv 5×5 6→16, ReLU, pool.  Block 1: Linear → 120, ReLU.
Block 2: Linear 120→84, ReLU.  Readout: a linear head.  Images with a side below 32 pixels get 2 pixels of padding on
each end of it, as LeCun's did: 28×28 becomes 32×32. Weights have PyTorch's default initialisation, or Glorot's.

Taps are the activations h_0 … h_3, flattened. There is no skip: h_{l+1} = f_l(h_l). A block's signal is at its output.
LeCun et al., Proc. IEEE 86, 1998; Sanfiz & Akrout, arXiv 2108.13446 (BioTorch resizes MNIST to 32×32 instead).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, empty, linear
from faudit.settings import one_of, setting

KERNEL = 5
CHANNELS = (6, 16)
HIDDEN = (120, 84)
LEAST = 12  # pixels along a side that leave one pixel after both pools
FULL = 32  # pixels along a side from which there is no padding


@dataclass(frozen=True)
class LeNet(Net):
    """LeNet-5 with ReLU."""

    weight_init: str = setting(
        "default",
        one_of(("default", "glorot")),
        "start of the weights: default (torch's) or glorot (uniform, and biases of 0, as in BioTorch)",
    )

    def __post_init__(self) -> None:
        _, height, breadth = self.sample_shape
        if min(height, breadth) < LEAST:
            raise ConfigError(
                f"net lenet: expected images of at least {LEAST}×{LEAST} pixels, got {height}×{breadth}. "
                "Take --net cnn for small images."
            )

    @property
    def blocks(self) -> int:
        return 3

    @property
    def signals(self) -> int:
        return 4

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        channels, height, breadth = self.sample_shape
        params: dict[str, Tensor] = {}
        for name, inputs, outputs in (("embed", channels, CHANNELS[0]), ("blocks.0", *CHANNELS)):
            weight, params[f"{name}.bias"] = self._layer(generator, inputs, outputs, entries=KERNEL**2)
            params[f"{name}.weight"] = weight.view(outputs, inputs, KERNEL, KERNEL)
        flat = CHANNELS[1] * pooled(height) * pooled(breadth)
        for name, inputs, outputs in (("blocks.1", flat, HIDDEN[0]), ("blocks.2", *HIDDEN)):
            params[f"{name}.weight"], params[f"{name}.bias"] = self._layer(generator, inputs, outputs)
        params["readout.weight"], params["readout.bias"] = self._layer(generator, HIDDEN[1], self.classes)
        return params

    def _layer(
        self, generator: torch.Generator, inputs: int, outputs: int, *, entries: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Weight and bias of a layer whose kernels have this many entries.

        ``glorot``: weight U(±√(6/(entries·(inputs + outputs)))), bias 0.
        """
        if self.weight_init == "default":
            return linear(generator, inputs=entries * inputs, outputs=outputs)
        bound = (6.0 / (entries * (inputs + outputs))) ** 0.5
        weight = empty(outputs, entries * inputs).uniform_(-bound, bound, generator=generator)
        return weight, empty(outputs).zero_()

    def embed(self, params: Params, x: Tensor) -> Tensor:
        rows, columns = (padding(side) for side in x.shape[2:])
        z = F.conv2d(x, params["embed.weight"], params["embed.bias"], padding=(rows, columns))
        return F.max_pool2d(F.relu(z), 2)

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        weight, bias = params[f"blocks.{block}.weight"], params[f"blocks.{block}.bias"]
        if block == 0:
            return F.max_pool2d(F.relu(F.conv2d(h, weight, bias)), 2)
        return F.relu(F.linear(h.flatten(1), weight, bias))

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return F.linear(h, params["readout.weight"], params["readout.bias"])


def padding(side: int) -> int:
    """The pixels that are added on each end of a side."""
    return 2 if side < FULL else 0


def pooled(side: int) -> int:
    """What is left of a side after both convolutions and pools."""
    for added in (padding(side), 0):
        side = (side + 2 * added - KERNEL + 1) // 2
    return side
