"""SmallCNN: three convolutions and a hidden layer, without skip connections.

embed: conv 3×3 C→32, ReLU.  Block 0: conv 32→64, ReLU, 2×2 max-pool.  Block 1: conv 64→128, ReLU, pool.
Block 2: Linear → 256, ReLU.  Readout: a linear head.  All convolutions have padding 1. Weights have
PyTorch's default initialisation.

Taps are the activations h_0 … h_3, flattened. There is no skip: h_{l+1} = f_l(h_l). A block's signal is at its output
and has the width of that tap. Under the local rules no gradient flows between blocks. Block-level FA needs a dense
matrix between neighbouring taps: 2.7 GB of feedback on 32×32 images.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, linear

CHANNELS = (32, 64, 128)
HIDDEN = 256


@dataclass(frozen=True)
class SmallCNN(Net):
    """A small convolutional network."""

    def __post_init__(self) -> None:
        _, height, breadth = self.sample_shape
        if min(height, breadth) < 4:
            raise ConfigError(f"net cnn: expected images of at least 4×4 pixels, got {height}×{breadth}")

    @property
    def blocks(self) -> int:
        return 3

    @property
    def signals(self) -> int:
        return 4

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        channels, height, breadth = self.sample_shape
        params: dict[str, Tensor] = {}
        for name, inputs, outputs in (
            ("embed", channels, CHANNELS[0]),
            ("blocks.0", CHANNELS[0], CHANNELS[1]),
            ("blocks.1", CHANNELS[1], CHANNELS[2]),
        ):
            weight, params[f"{name}.bias"] = linear(generator, inputs=9 * inputs, outputs=outputs)
            params[f"{name}.weight"] = weight.view(outputs, inputs, 3, 3)
        flat = CHANNELS[2] * (height // 4) * (breadth // 4)
        params["blocks.2.weight"], params["blocks.2.bias"] = linear(generator, inputs=flat, outputs=HIDDEN)
        params["readout.weight"], params["readout.bias"] = linear(generator, inputs=HIDDEN, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, params["embed.weight"], params["embed.bias"], padding=1))

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        weight, bias = params[f"blocks.{block}.weight"], params[f"blocks.{block}.bias"]
        if block < 2:
            return F.max_pool2d(F.relu(F.conv2d(h, weight, bias, padding=1)), 2)
        return F.relu(F.linear(h.flatten(1), weight, bias))

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return F.linear(h, params["readout.weight"], params["readout.bias"])
