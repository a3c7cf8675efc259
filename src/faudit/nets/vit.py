"""ViT-Mini: a small pre-norm vision transformer that reads out and measures the class token.

embed: patches of ``patch`` × ``patch`` pixels through one Linear, a learned class token in front, positions added.
Block: f_l(h) = a + m with a = Attention(LN(h)) and m = W2·GELU(W1·LN(h + a)). Both sub-layers form one block, so
h_{l+1} = h_l + f_l(h_l) holds for every token.  Readout: LayerNorm (or nothing) of the class token, then a linear head.

Taps read the class token. Its signal teaches every token (``credit_tokens = "all"``) or the class token alone
(``"cls"``). With ``"cls"`` the patch projection gets no signal, because the class token contains no patch at h_0. The
skip carries every token unchanged. Under BP the gradient flows through the skip, and through attention from the class
token to the others. Under the local rules no gradient flows between blocks.
Class token and positions ~ N(0, 0.02²), every Linear with PyTorch's default initialisation.
After Dosovitskiy et al., ICLR 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, gelu, linear, normal, ones_zeros
from faudit.settings import one_of, setting, switch, whole

TOKEN_STD = 0.02


@dataclass(frozen=True)
class ViT(Net):
    """A small vision transformer."""

    depth: int = setting(4, whole(1, 1024), "number of blocks, L")
    width: int = setting(256, whole(1, 65_536), "features of a hidden state, d")
    no_terminal_norm: bool = setting(False, switch, "leave out the LayerNorm before the head")
    patch: int = setting(4, whole(1, 1024), "pixels along a side of a patch")
    heads: int = setting(4, whole(1, 1024), "attention heads")
    mlp_ratio: int = setting(2, whole(1, 64), "hidden width of a block's MLP, in widths")
    credit_tokens: str = setting("all", one_of(("all", "cls")), "which tokens a signal teaches under a local rule")

    def __post_init__(self) -> None:
        _, height, breadth = self.sample_shape
        if height % self.patch or breadth % self.patch:
            raise ConfigError(
                f"patch: expected a divisor of the image's {height}×{breadth} pixels, got {self.patch}. "
                "Take another --patch (2 for the 8×8 digits, 4 for CIFAR)."
            )
        if self.width % self.heads:
            raise ConfigError(
                f"heads: expected a divisor of the width {self.width}, got {self.heads}. Take another --heads."
            )

    @property
    def blocks(self) -> int:
        return self.depth

    @property
    def tokens(self) -> int:
        """The number of tokens: the patches and the class token."""
        _, height, breadth = self.sample_shape
        return (height // self.patch) * (breadth // self.patch) + 1

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        d, inner = self.width, self.mlp_ratio * self.width
        params: dict[str, Tensor] = {}
        pixels = self.sample_shape[0] * self.patch**2
        params["embed.weight"], params["embed.bias"] = linear(generator, inputs=pixels, outputs=d)
        params["embed.cls"] = normal(generator, d, std=TOKEN_STD)
        params["embed.positions"] = normal(generator, self.tokens, d, std=TOKEN_STD)
        for l in range(self.depth):
            b = f"blocks.{l}"
            params[f"{b}.norm1.weight"], params[f"{b}.norm1.bias"] = ones_zeros(d)
            params[f"{b}.qkv.weight"], params[f"{b}.qkv.bias"] = linear(generator, inputs=d, outputs=3 * d)
            params[f"{b}.out.weight"], params[f"{b}.out.bias"] = linear(generator, inputs=d, outputs=d)
            params[f"{b}.norm2.weight"], params[f"{b}.norm2.bias"] = ones_zeros(d)
            params[f"{b}.w1.weight"], params[f"{b}.w1.bias"] = linear(generator, inputs=d, outputs=inner)
            params[f"{b}.w2.weight"], params[f"{b}.w2.bias"] = linear(generator, inputs=inner, outputs=d)
        if not self.no_terminal_norm:
            params["readout.norm.weight"], params["readout.norm.bias"] = ones_zeros(d)
        params["readout.head.weight"], params["readout.head.bias"] = linear(generator, inputs=d, outputs=self.classes)
        return params

    def embed(self, params: Params, x: Tensor) -> Tensor:
        patches = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)  # [n, patches, C·patch²]
        tokens = F.linear(patches, params["embed.weight"], params["embed.bias"])
        cls = params["embed.cls"].expand(len(x), 1, -1)
        return torch.cat([cls, tokens], dim=1) + params["embed.positions"]

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        b = f"blocks.{block}"
        z = F.layer_norm(h, (self.width,), params[f"{b}.norm1.weight"], params[f"{b}.norm1.bias"])
        qkv = F.linear(z, params[f"{b}.qkv.weight"], params[f"{b}.qkv.bias"])
        q, k, v = qkv.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each [n, heads, tokens, d/heads]
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        attended = F.linear(mixed, params[f"{b}.out.weight"], params[f"{b}.out.bias"])
        z = F.layer_norm(h + attended, (self.width,), params[f"{b}.norm2.weight"], params[f"{b}.norm2.bias"])
        z = gelu(F.linear(z, params[f"{b}.w1.weight"], params[f"{b}.w1.bias"]))
        return attended + F.linear(z, params[f"{b}.w2.weight"], params[f"{b}.w2.bias"])

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        return h + f

    def readout(self, params: Params, h: Tensor) -> Tensor:
        h = h[:, 0]
        if not self.no_terminal_norm:
            h = F.layer_norm(h, (self.width,), params["readout.norm.weight"], params["readout.norm.bias"])
        return F.linear(h, params["readout.head.weight"], params["readout.head.bias"])

    def tap(self, h: Tensor) -> Tensor:
        return h[:, 0]

    def spread(self, signal: Tensor, like: Tensor) -> Tensor:
        if self.credit_tokens == "all":
            return signal.unsqueeze(1).expand_as(like)
        return self.lift(signal, like)

    def lift(self, shift: Tensor, like: Tensor) -> Tensor:
        return F.pad(shift.unsqueeze(1), (0, 0, 0, like.shape[1] - 1))
