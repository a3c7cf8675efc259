"""Precision referee: does the reference itself still mean anything, or is it rounding?

The BP gradient is computed again in float64, from the input on. Where the network's own precision and float64 agree on
a sample's direction, the reference is sound however small it is; where they do not, Γ against it says nothing. A
magnitude alone cannot tell: float32 holds 1e-9 as well as 1, and a well-fitted network has small gradients because its
error is small. So the gradient is also given relative to the output error e = softmax(logits) − onehot(y). A fitted
sample has an error that the network's own precision cannot hold (``Reading.fitted``). It is counted apart, because a
good fit is no fault of the reference. A sample whose gradient is exactly zero in both precisions is counted apart too,
because it has no direction to agree on.
Reference: ours; it replaces the size that arXiv 2606.21126 asks for. On rounding: Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, 2002.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined, median, norms

AGREEMENT = 0.99  # cosine from which two computations of one direction are taken to agree


class Precision(Probe):
    """The gradient in the network's own precision against float64, at each tap.

    Means and shares are over the samples that have a direction and are not fitted.
    """

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 2
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "precision",
            "taps",
            "Mean cosine between the gradient and its float64 recomputation; null where no sample has both.",
            unit="cosine",
        ),
        Entry("precision_agree", "taps", "Share of the samples where that cosine is above 0.99.", unit="share"),
        Entry(
            "precision_undefined",
            "taps",
            "How many samples have a gradient of exactly zero in both.",
            kind="count",
            unit="samples",
        ),
        Entry(
            "precision_fitted",
            "scalar",
            "How many samples are fitted, as in the entry fitted; they are left out of the three above.",
            kind="count",
            unit="samples",
        ),
        Entry(
            "grad_relative",
            "taps",
            "Median over the samples of ‖∂ℓ_i/∂h_l‖ relative to the output error's norm, in float64.",
            unit="ratio",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        exact = reading.doubled
        errors = norms(exact.errors.reshape(len(reading.y), -1))
        open_ones = ~reading.fitted
        pairs = list(zip(reading.gradients, exact.gradients, strict=True))
        nothing = [open_ones & (norms(own) == 0) & (norms(true) == 0) for own, true in pairs]
        angles = [cosines(own, true)[open_ones & ~none] for (own, true), none in zip(pairs, nothing, strict=True)]
        return {
            "precision": [mean_defined(angle)[0] for angle in angles],
            "precision_agree": [float((angle > AGREEMENT).double().mean()) if len(angle) else None for angle in angles],
            "precision_undefined": [int(none.sum()) for none in nothing],
            "precision_fitted": int(reading.fitted.sum()),
            "grad_relative": [
                median(ratio[errors > 0]) if bool((errors > 0).any()) else None
                for gradient in exact.gradients
                for ratio in (norms(gradient) / errors,)
            ],
        }
