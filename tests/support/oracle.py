"""ResMLP and its learning rules by hand in numpy and float64: the second, slower, obviously right computation.

No autograd and nothing of faudit: every derivative below is the formula from the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LN_EPS = 1e-5


def gelu(z: Array) -> Array:
    return np.asarray(z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))))


def gelu_slope(z: Array) -> Array:
    cdf = 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    return np.asarray(cdf + z * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))


def layer_norm(h: Array) -> tuple[Array, Array]:
    """Normalised h and 1/σ per sample."""
    rest = h - h.mean(1, keepdims=True)
    inverse = 1 / np.sqrt((rest**2).mean(1, keepdims=True) + LN_EPS)
    return rest * inverse, inverse


def layer_norm_back(signal: Array, normal: Array, inverse: Array) -> Array:
    """∂/∂h of ⟨signal, LN(h)⟩ (gain already in the signal)."""
    return np.asarray(
        inverse * (signal - signal.mean(1, keepdims=True) - normal * (signal * normal).mean(1, keepdims=True))
    )


@dataclass
class Oracle:
    """A ResMLP with numpy weights; ``feedback`` replaces the weights that it names in the backward pass."""

    p: dict[str, Array]
    depth: int
    terminal_norm: bool = True
    residual: bool = True
    feedback: dict[str, Array] = field(default_factory=dict)

    def back(self, name: str) -> Array:
        """The matrix that sends an error back through a layer."""
        return self.feedback.get(name, self.p[name])

    def forward(self, x: Array) -> None:
        self.x = x.reshape(len(x), -1)
        h = self.x @ self.p["embed.weight"].T + self.p["embed.bias"]
        self.h, self.f, self.kept = [h], [], []
        for l in range(self.depth):
            b = f"blocks.{l}"
            normal, inverse = layer_norm(h)
            u = normal * self.p[f"{b}.norm.weight"] + self.p[f"{b}.norm.bias"]
            z = u @ self.p[f"{b}.w1.weight"].T + self.p[f"{b}.w1.bias"]
            f = gelu(z) @ self.p[f"{b}.w2.weight"].T + self.p[f"{b}.w2.bias"]
            self.kept.append((normal, inverse, u, z))
            self.f.append(f)
            h = h + f if self.residual else f
            self.h.append(h)
        self.r = h
        if self.terminal_norm:
            normal, inverse = layer_norm(h)
            self.terminal = normal, inverse
            self.r = normal * self.p["readout.norm.weight"] + self.p["readout.norm.bias"]
        self.logits = self.r @ self.p["readout.head.weight"].T + self.p["readout.head.bias"]

    def onward(self, tap: int, h: Array) -> Array:
        """The logits had this tap been h; nothing of the forward pass is touched."""
        for l in range(tap, self.depth):
            b = f"blocks.{l}"
            u = layer_norm(h)[0] * self.p[f"{b}.norm.weight"] + self.p[f"{b}.norm.bias"]
            z = u @ self.p[f"{b}.w1.weight"].T + self.p[f"{b}.w1.bias"]
            f = gelu(z) @ self.p[f"{b}.w2.weight"].T + self.p[f"{b}.w2.bias"]
            h = h + f if self.residual else f
        if self.terminal_norm:
            h = layer_norm(h)[0] * self.p["readout.norm.weight"] + self.p["readout.norm.bias"]
        return np.asarray(h @ self.p["readout.head.weight"].T + self.p["readout.head.bias"])

    def error(self, y: NDArray[np.int64]) -> Array:
        """softmax − onehot, per sample."""
        e = np.exp(self.logits - self.logits.max(1, keepdims=True))
        e = e / e.sum(1, keepdims=True)
        e[np.arange(len(y)), y] -= 1
        return np.asarray(e)

    def readout_back(self, e: Array) -> tuple[dict[str, Array], Array]:
        """Gradients of the readout and at h_L for an error e at the logits."""
        grads = {"readout.head.weight": e.T @ self.r, "readout.head.bias": e.sum(0)}
        signal = e @ self.back("readout.head.weight")
        if self.terminal_norm:
            normal, inverse = self.terminal
            grads["readout.norm.weight"] = (signal * normal).sum(0)
            grads["readout.norm.bias"] = signal.sum(0)
            signal = layer_norm_back(signal * self.p["readout.norm.weight"], normal, inverse)
        return grads, signal

    def block_back(self, l: int, signal: Array) -> tuple[dict[str, Array], Array]:
        """Gradients of ⟨f_l(h_l), signal⟩ with respect to the block's weights and to h_l."""
        b, (normal, inverse, u, z) = f"blocks.{l}", self.kept[l]
        grads = {f"{b}.w2.weight": signal.T @ gelu(z), f"{b}.w2.bias": signal.sum(0)}
        inner = (signal @ self.back(f"{b}.w2.weight")) * gelu_slope(z)
        grads[f"{b}.w1.weight"], grads[f"{b}.w1.bias"] = inner.T @ u, inner.sum(0)
        before = inner @ self.back(f"{b}.w1.weight")
        grads[f"{b}.norm.weight"], grads[f"{b}.norm.bias"] = (before * normal).sum(0), before.sum(0)
        return grads, layer_norm_back(before * self.p[f"{b}.norm.weight"], normal, inverse)

    def embed_back(self, signal: Array) -> dict[str, Array]:
        return {"embed.weight": signal.T @ self.x, "embed.bias": signal.sum(0)}

    def bp(self, e: Array, penalty: float = 0.0) -> tuple[dict[str, Array], list[Array]]:
        """Every weight's gradient and every tap's, for an error e at the logits (divide e by n for the mean loss)."""
        n = len(self.x)
        grads, signal = self.readout_back(e)
        taps = [signal]
        for l in reversed(range(self.depth)):
            own, back = self.block_back(l, signal + 2 * penalty / n * self.f[l])
            grads |= own
            signal = signal + back if self.residual else back
            taps.insert(0, signal)
        return grads | self.embed_back(signal), taps

    def local(
        self, credit: list[Array], e: Array, *, penalty: float, eps: float, clip: float, first: Array | None = None
    ) -> dict[str, Array]:
        """The local rules' update: normalised credit at each block, the mean over the batch, each block clipped.

        ``first`` is the credit of the embedding, if it is not that of tap 0.
        """
        n = len(self.x)
        *signal, embedding = (
            a / (np.sqrt((a**2).mean(1, keepdims=True)) + eps) / n
            for a in (*credit, credit[0] if first is None else first)
        )
        skipped = 0 if self.residual else 1
        grads, _ = self.readout_back(e / n)
        for l in range(self.depth):
            own, _ = self.block_back(l, signal[l + skipped] + 2 * penalty / n * self.f[l])
            size = math.sqrt(sum(float((g**2).sum()) for g in own.values()))
            grads |= {name: g * min(1.0, clip / (size + 1e-6)) for name, g in own.items()}
        return grads | self.embed_back(embedding)
