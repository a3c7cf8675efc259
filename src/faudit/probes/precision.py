"""Precision referee: does the reference itself still mean anything, or is it rounding?

The BP gradient is computed again in float64, from the input on. Where the network's own precision and float64 agree on
a sample's direction, the reference is sound however small it is; where they do not, Γ against it says nothing. A
magnitude alone cannot tell: float32 holds 1e-9 as well as 1, and a well-fitted network has small gradients because its
error is small. So the gradient is also given relative to the output error e = softmax(logits) − onehot(y).
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined, median, norms

AGREEMENT = 0.99  # cosine from which two computations of one direction are taken to agree


class Precision(Probe):
    """Per tap [L+1]: ``precision`` mean cosine between the two, ``precision_agree`` share of samples where they agree,
    ``grad_relative`` median of ‖∂ℓ/∂h_l‖ / ‖e‖ in float64."""

    tier: ClassVar[str] = "full"

    def measure(self, reading: Reading) -> dict[str, Any]:
        exact = reading.doubled
        errors = norms(exact.errors)
        angles = [cosines(own, true) for own, true in zip(reading.gradients, exact.gradients, strict=True)]
        return {
            "precision": [mean_defined(angle)[0] for angle in angles],
            "precision_agree": [float((angle > AGREEMENT).double().mean()) for angle in angles],
            "grad_relative": [
                median(ratio[errors > 0]) if bool((errors > 0).any()) else None
                for gradient in exact.gradients
                for ratio in (norms(gradient) / errors,)
            ],
        }
