"""A stack of tanh layers with skips: h_{l+1} = h_l + tanh(W_l h_l + b_l)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faudit import Net
from faudit.nets.net import Params, linear
from faudit.settings import setting, whole


@dataclass(frozen=True)
class TanhStack(Net):
    """Residual tanh layers of one width."""

    layers: int = setting(3, whole(1, 100), "number of residual layers")
    features: int = setting(16, whole(1, 4096), "width of every layer")

    @property
    def blocks(self) -> int:
        return self.layers

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        inputs = torch.Size(self.sample_shape).numel()
        sizes = {"embed": (inputs, self.features), "readout": (self.features, self.classes)}
        sizes |= {f"blocks.{l}": (self.features, self.features) for l in range(self.layers)}
        weights: dict[str, Tensor] = {}
        for part in self.parts:
            weight, bias = linear(generator, inputs=sizes[part][0], outputs=sizes[part][1])
            weights |= {f"{part}.weight": weight, f"{part}.bias": bias}
        return weights

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return x.flatten(1) @ params["embed.weight"].T + params["embed.bias"]

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        return torch.tanh(h @ params[f"blocks.{block}.weight"].T + params[f"blocks.{block}.bias"])

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return h + f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return h @ params["readout.weight"].T + params["readout.bias"]
