"""ResMLP: a residual stack of two-layer MLP branches over one linear embedding.

embed: one Linear x → h_0.  Block: f_l(h) = W2·GELU(W1·LN(h)), W1 and W2 both d × d with bias, W2 ~ N(0, w2_std²) with
bias 0, everything else with PyTorch's default initialisation.  Readout: LayerNorm (or nothing), then a linear head.

Taps are the whole hidden state before each block and after the last. The skip carries h_l unchanged. Under BP the
gradient also flows through the skip. Under the local rules (DFA, FA) it does not, because the graph is cut at every
tap. Without the skip (``no_residual``) h_{l+1} = f_l(h_l); this needs w2_std ≈ 0.5 to train.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, gelu, linear, normal, ones_zeros
from faudit.settings import number, setting, switch, whole


@dataclass(frozen=True)
class ResMLP(Net):
    """The residual MLP of the paper."""

    depth: int = setting(4, whole(1, 1024), "number of blocks, L")
    width: int = setting(256, whole(1, 65_536), "features of a hidden state, d")
    w2_std: float = setting(0.01, number(0.0), "standard deviation of each block's last layer at init")
    no_terminal_norm: bool = setting(False, switch, "leave out the LayerNorm before the head")
    no_residual: bool = setting(False, switch, "h_{l+1} = f_l(h_l), without the skip")

    @property
    def blocks(self) -> int:
        return self.depth

    @property
    def signals(self) -> int:
        return self.depth + 1 if self.no_residual else self.depth

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        d = self.width
        params: dict[str, Tensor] = {}
        params["embed.weight"], params["embed.bias"] = linear(generator, inputs=prod(self.sample_shape), outputs=d)
        for l in range(self.depth):
            block = f"blocks.{l}"
            params[f"{block}.norm.weight"], params[f"{block}.norm.bias"] = ones_zeros(d)
            params[f"{block}.w1.weight"], params[f"{block}.w1.bias"] = linear(generator, inputs=d, outputs=d)
            params[f"{block}.w2.weight"] = normal(generator, d, d, std=self.w2_std)
            params[f"{block}.w2.bias"] = ones_zeros(d)[1]
        if not self.no_terminal_norm:
            params["readout.norm.weight"], params["readout.norm.bias"] = ones_zeros(d)
        params["readout.head.weight"], params["readout.head.bias"] = linear(generator, inputs=d, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), params["embed.weight"], params["embed.bias"])

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        name = f"blocks.{block}"
        z = F.layer_norm(h, (self.width,), params[f"{name}.norm.weight"], params[f"{name}.norm.bias"])
        z = gelu(F.linear(z, params[f"{name}.w1.weight"], params[f"{name}.w1.bias"]))
        return F.linear(z, params[f"{name}.w2.weight"], params[f"{name}.w2.bias"])

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return f if self.no_residual else h + f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        if not self.no_terminal_norm:
            h = F.layer_norm(h, (self.width,), params["readout.norm.weight"], params["readout.norm.bias"])
        return F.linear(h, params["readout.head.weight"], params["readout.head.bias"])
