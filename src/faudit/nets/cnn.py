"""SmallCNN: three convolutions and a hidden layer, without skip connections.

embed: conv 3×3 C→w, ReLU.  Block 0: conv w→2w, ReLU, 2×2 max-pool.  Block 1: conv 2w→4w, ReLU, pool.
Block 2: Linear → 8w, ReLU.  Readout: a linear head.  w is the ``width``. All convolutions have padding 1. Weights have
PyTorch's default initialisation.

Taps are the activations h_0 … h_3, flattened. There is no skip: h_{l+1} = f_l(h_l). A block's signal is at its output
and has the width of that tap. Under the local rules no gradient flows between blocks. Block-level FA needs a dense
matrix between neighbouring taps: 2.7 GB of feedback on 32×32 images at the default width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, linear
from faudit.settings import setting, whole


@dataclass(frozen=True)
class SmallCNN(Net):
    """A small convolutional network."""

    width: int = setting(
        32, whole(1, 8192), "channels of the first convolution; the next layers have 2, 4 and 8 times as many"
    )

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
        w = self.width
        params: dict[str, Tensor] = {}
        for name, inputs, outputs in (
            ("embed", channels, w),
            ("blocks.0", w, 2 * w),
            ("blocks.1", 2 * w, 4 * w),
        ):
            weight, params[f"{name}.bias"] = linear(generator, inputs=9 * inputs, outputs=outputs)
            params[f"{name}.weight"] = weight.view(outputs, inputs, 3, 3)
        flat = 4 * w * (height // 4) * (breadth // 4)
        params["blocks.2.weight"], params["blocks.2.bias"] = linear(generator, inputs=flat, outputs=8 * w)
        params["readout.weight"], params["readout.bias"] = linear(generator, inputs=8 * w, outputs=self.classes)
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
