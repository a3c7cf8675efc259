"""ResNet: a small residual network of convolutions with BatchNorm, in the form with the activation before the weights.

embed: conv 3×3 C→w.  L = ``depth`` blocks in three stages of w, 2w and 4w channels.  Block:
f_l(h) = conv(ReLU(BN(conv(z)))) with z = ReLU(BN(h)), and h_{l+1} = h_l + f_l(h_l).  The first block of the second and
third stage halves the image. There f_l(h) = conv(ReLU(BN(conv(z)))) + conv1×1(z), all of it, and h_{l+1} = f_l(h_l).
Readout: BatchNorm, ReLU, mean over the pixels, then a linear head.  Convolutions have no bias and ~ N(0, 2/inputs).

Taps are the whole hidden states, flattened. Their size changes between stages, so each block's signal is at its
output, also where there is a skip. In this form the skip carries h_l unchanged, and the signal at h_{l+1} is the signal
at f_l. A depth of 9 and a width of 16 give ResNet-20. Block-level FA needs a dense matrix between neighbouring taps.
He et al., ECCV 2016 ("Identity mappings in deep residual networks").
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, batch_norm, linear, new_batch_norm, normal
from faudit.settings import setting, whole

STAGES = 3


@dataclass(frozen=True)
class ResNet(Net):
    """A small residual network with BatchNorm."""

    depth: int = setting(3, whole(3, 1023), "number of blocks, L, over three stages")
    width: int = setting(16, whole(1, 16_384), "channels of the first stage")

    def __post_init__(self) -> None:
        if self.depth % STAGES:
            raise ConfigError(
                f"depth: expected a multiple of the {STAGES} stages of net resnet, got {self.depth}. "
                f"Take --depth {STAGES}, {2 * STAGES} or {3 * STAGES}."
            )

    @property
    def blocks(self) -> int:
        return self.depth

    @property
    def signals(self) -> int:
        return self.depth + 1

    @property
    def least_batch(self) -> int:
        pixels = prod(-(-side // 2 ** (STAGES - 1)) for side in self.sample_shape[1:])
        return 2 if pixels == 1 else 1

    def _stage(self, block: int) -> int:
        return block * STAGES // self.depth

    def _halves(self, block: int) -> bool:
        """Whether a block is the first of a later stage."""
        return block > 0 and self._stage(block) > self._stage(block - 1)

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        inputs = self.width
        params = {"embed.weight": kernel(generator, inputs=self.sample_shape[0], outputs=inputs)}
        for l in range(self.depth):
            name, outputs = f"blocks.{l}", self.width * 2 ** self._stage(l)
            params |= new_batch_norm(f"{name}.norm1", inputs)
            params[f"{name}.conv1.weight"] = kernel(generator, inputs=inputs, outputs=outputs)
            params |= new_batch_norm(f"{name}.norm2", outputs)
            params[f"{name}.conv2.weight"] = kernel(generator, inputs=outputs, outputs=outputs)
            if self._halves(l):
                params[f"{name}.skip.weight"] = kernel(generator, inputs=inputs, outputs=outputs, side=1)
            inputs = outputs
        params |= new_batch_norm("readout.norm", inputs)
        params["readout.weight"], params["readout.bias"] = linear(generator, inputs=inputs, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return F.conv2d(x, params["embed.weight"], padding=1)

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        name, stride = f"blocks.{block}", 2 if self._halves(block) else 1
        z = F.relu(batch_norm(self.training, params, f"{name}.norm1", h))
        f = F.conv2d(z, params[f"{name}.conv1.weight"], padding=1, stride=stride)
        f = F.relu(batch_norm(self.training, params, f"{name}.norm2", f))
        f = F.conv2d(f, params[f"{name}.conv2.weight"], padding=1)
        if self._halves(block):
            f = f + F.conv2d(z, params[f"{name}.skip.weight"], stride=stride)
        return f

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return h + f if h.shape == f.shape else f  # a block that halves the image doubles the channels, always

    def readout(self, params: Params, h: Tensor) -> Tensor:
        z = F.relu(batch_norm(self.training, params, "readout.norm", h)).mean(dim=(2, 3))
        return F.linear(z, params["readout.weight"], params["readout.bias"])


def kernel(generator: torch.Generator, *, inputs: int, outputs: int, side: int = 3) -> Tensor:
    """The weights of a convolution, N(0, 2/inputs) with the inputs of one output counted over the kernel."""
    return normal(generator, outputs, inputs, side, side, std=sqrt(2.0 / (inputs * side**2)))
