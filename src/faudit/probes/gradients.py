"""Gradient norms: how large the true (BP) gradient is at every tap, whatever rule trains.

The gradient is of each sample's own loss, so the median does not depend on the buffer's size. The published study
differentiates the mean over n samples; its numbers are these divided by n.
"""

from __future__ import annotations

from typing import Any

import torch

from faudit.probes.probe import Probe, Reading
from faudit.tensors import median, norms


class Gradients(Probe):
    """``grad_norms`` [L+1], median per-sample norm of ∂ℓ_i/∂h_l; ``grad_norms_frobenius`` [L+1], of the buffer."""

    def measure(self, reading: Reading) -> dict[str, Any]:
        sizes = [norms(gradient) for gradient in reading.gradients]
        return {
            "grad_norms": [median(size) for size in sizes],
            "grad_norms_frobenius": [float(torch.linalg.vector_norm(size)) for size in sizes],
        }
