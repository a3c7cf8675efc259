"""The layers of small nets by hand in numpy: what each one read and gave, and its gradient for a signal at its output.

No autograd: every derivative below is the formula from the page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.support.nets import Setup

Array = NDArray[np.float64]


def numbers(setup: Setup) -> dict[str, Array]:
    """Weights and feedback as arrays."""
    return {name: value.detach().numpy() for name, value in {**setup.params, **setup.state}.items()}


def softmax_error(logits: Array, y: NDArray[np.int64]) -> Array:
    """softmax − onehot."""
    e = np.exp(logits - logits.max(1, keepdims=True))
    e = e / e.sum(1, keepdims=True)
    e[np.arange(len(y)), y] -= 1
    return np.asarray(e)


@dataclass
class Stretch:
    """A layer and what follows it up to the place of its signal."""

    name: str  # of the layer, without ".weight"
    feedback: str
    read: Array
    gave: Array
    slope: Array  # φ′ where the layer is linear up to φ

    def grads(self, signal: Array) -> dict[str, Array]:
        delta = signal * self.slope
        return {f"{self.name}.weight": delta.T @ self.read, f"{self.name}.bias": delta.sum(0)}


def student(setup: Setup, alpha: float) -> tuple[list[Stretch], Array, Array]:
    """The stretches of a StudentNet, what its head reads, and its logits."""
    p = numbers(setup)
    x = setup.x.numpy().reshape(len(setup.x), -1)
    h = x @ p["embed.weight"].T + p["embed.bias"]
    stretches = [Stretch("embed", "B.0", x, h, np.ones_like(h))]
    for l in range(setup.net.blocks):
        b = f"blocks.{l}"
        z = h @ p[f"{b}.w1.weight"].T + p[f"{b}.w1.bias"]
        a = (1 - alpha) * z + alpha * np.tanh(z)
        f = a @ p[f"{b}.w2.weight"].T + p[f"{b}.w2.bias"]
        slope = (1 - alpha) + alpha * (1 - np.tanh(z) ** 2)
        stretches += [
            Stretch(f"{b}.w1", f"B.{b}.w2.weight", h, a, slope),
            Stretch(f"{b}.w2", f"B.{l}", a, f, np.ones_like(f)),
        ]
        h = h + f
    return stretches, h, h @ p["readout.weight"].T + p["readout.bias"]


def mlp(setup: Setup) -> tuple[list[Stretch], Array, Array]:
    """The same of an MLP with tanh."""
    p = numbers(setup)
    h = setup.x.numpy().reshape(len(setup.x), -1)
    stretches = []
    for l in range(setup.net.blocks):
        z = h @ p[f"blocks.{l}.weight"].T + p[f"blocks.{l}.bias"]
        a = np.tanh(z)
        stretches.append(Stretch(f"blocks.{l}", f"B.{l + 1}", h, a, 1 - a**2))
        h = a
    return stretches, h, h @ p["readout.weight"].T + p["readout.bias"]


def by_hand(setup: Setup) -> tuple[list[Stretch], Array, Array]:
    """The stretches of a net by the name of its class."""
    if type(setup.net).__name__ == "MLP":
        return mlp(setup)
    return student(setup, setup.net.alpha)  # type: ignore[attr-defined]  # a StudentNet


def direct_grads(setup: Setup, targets: Array) -> dict[str, Array]:
    """What a direct rule with these targets gives every weight of such a net: mean over the batch."""
    p, n = numbers(setup), len(setup.x)
    stretches, last, logits = by_hand(setup)
    e = softmax_error(logits, setup.y.numpy()) / n
    grads = {"readout.weight": e.T @ last, "readout.bias": e.sum(0)}
    for stretch in stretches:
        grads |= stretch.grads(targets / n @ p[stretch.feedback].T)
    return grads


def output_errors(setup: Setup) -> Array:
    """softmax − onehot of each sample."""
    return softmax_error(by_hand(setup)[2], setup.y.numpy())
