"""StudentNet: a residual stack with a bounded activation and no normalisation.

embed: one Linear x → h_0.  Block: f_l(h) = W2·φ_α(W1·h), φ_α(z) = (1 − α) z + α tanh(z), W1 and W2 both d × d with
bias, W2 ~ N(0, w2_std²) with bias 0, everything else with PyTorch's default initialisation.  Readout: a linear head.

Taps are the whole hidden state. The skip carries h_l unchanged. Under BP it also carries the gradient, under the local
rules it does not. With α = 1, W2 alone bounds the norm of a branch, whatever the norm of h. So growth does
not amplify itself, and no normalisation hides the norm of the stream from the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, linear, normal, ones_zeros
from faudit.settings import number, setting, share, whole


@dataclass(frozen=True)
class StudentNet(Net):
    """The student of the teacher–student task."""

    depth: int = setting(4, whole(1, 1024), "number of blocks, L")
    width: int = setting(256, whole(1, 65_536), "features of a hidden state, d")
    w2_std: float = setting(0.01, number(0.0), "standard deviation of each block's last layer at init")
    alpha: float = setting(1.0, share, "α of the activation (1 − α) z + α tanh(z)")

    @property
    def blocks(self) -> int:
        return self.depth

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        d = self.width
        params: dict[str, Tensor] = {}
        params["embed.weight"], params["embed.bias"] = linear(generator, inputs=prod(self.sample_shape), outputs=d)
        for l in range(self.depth):
            block = f"blocks.{l}"
            params[f"{block}.w1.weight"], params[f"{block}.w1.bias"] = linear(generator, inputs=d, outputs=d)
            params[f"{block}.w2.weight"] = normal(generator, d, d, std=self.w2_std)
            params[f"{block}.w2.bias"] = ones_zeros(d)[1]
        params["readout.weight"], params["readout.bias"] = linear(generator, inputs=d, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), params["embed.weight"], params["embed.bias"])

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        name = f"blocks.{block}"
        z = F.linear(h, params[f"{name}.w1.weight"], params[f"{name}.w1.bias"])
        z = (1.0 - self.alpha) * z + self.alpha * torch.tanh(z)
        return F.linear(z, params[f"{name}.w2.weight"], params[f"{name}.w2.bias"])

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return h + f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return F.linear(h, params["readout.weight"], params["readout.bias"])
