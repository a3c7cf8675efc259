"""StudentNet: a residual stack of one-layer branches with a bounded activation and no normalisation anywhere.

embed: one Linear x → h_0.  Block: f_l(h) = φ_α(W h + b), φ_α(z) = (1 − α) z + α tanh(z).  Readout: a linear head.
Everything is drawn as PyTorch draws it.

Taps are the whole hidden state. The skip carries h_l unchanged; under BP it also carries the gradient, under the local
rules nothing goes back through it. With α = 1 a branch is at most √d long whatever its weights, so the stream cannot
explode.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, linear


@dataclass(frozen=True)
class StudentNet(Net):
    """The student of the teacher–student task."""

    depth: int = 4
    width: int = 256
    alpha: float = 1.0

    @property
    def blocks(self) -> int:
        return self.depth

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        d = self.width
        params: dict[str, Tensor] = {}
        params["embed.weight"], params["embed.bias"] = linear(generator, inputs=prod(self.sample_shape), outputs=d)
        for l in range(self.depth):
            params[f"blocks.{l}.weight"], params[f"blocks.{l}.bias"] = linear(generator, inputs=d, outputs=d)
        params["readout.weight"], params["readout.bias"] = linear(generator, inputs=d, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), params["embed.weight"], params["embed.bias"])

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        z = F.linear(h, params[f"blocks.{block}.weight"], params[f"blocks.{block}.bias"])
        return (1.0 - self.alpha) * z + self.alpha * torch.tanh(z)

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return h + f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return F.linear(h, params["readout.weight"], params["readout.bias"])
