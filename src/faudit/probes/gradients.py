"""Gradient norms: the size of the true (BP) gradient at every tap, for any rule.

The gradient is of each sample's own loss, so the median does not depend on the size of the buffer. The paper
differentiates the mean over n samples; its numbers are these divided by n.
Reference: arXiv 2606.21126.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import median, norms


class Gradients(Probe):
    """The size of the true gradient at each tap."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "grad_norms",
            "taps",
            "Median over the samples of ‖∂ℓ_i/∂h_l‖, where ℓ_i is the loss of one sample.",
            unit="L2 norm",
            symbol=r"\|\partial\ell/\partial h_l\|",
            required=True,
        ),
        Entry(
            "grad_norms_frobenius",
            "taps",
            "√Σ_i ‖∂ℓ_i/∂h_l‖² over the samples of the buffer.",
            unit="Frobenius norm",
            symbol=r"\|\partial\ell/\partial h_l\|_F",
            required=True,
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        sizes = [norms(gradient) for gradient in reading.gradients]
        return {
            "grad_norms": [median(size) for size in sizes],
            "grad_norms_frobenius": [float(torch.linalg.vector_norm(size)) for size in sizes],
        }
