"""Accuracy and loss on the evaluation buffer.

    acc_eval = mean_i [argmax_c logits_i = y_i],   loss_eval = mean_i ℓ_i,   ℓ by default the cross-entropy

Reference: the first of the two numbers that arXiv 2606.21126 finds insufficient.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading


class Accuracy(Probe):
    """Accuracy and loss on the evaluation buffer."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "acc_eval",
            "scalar",
            "Accuracy on the evaluation buffer; null if the labels are not classes.",
            unit="accuracy",
            required=True,
        ),
        Entry("loss_eval", "scalar", "Mean loss over the evaluation buffer.", unit="nats", required=True),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        accuracy = None
        if "classes" in reading.offers:
            accuracy = float((reading.predicted.argmax(dim=1) == reading.y).double().mean())
        return {"acc_eval": accuracy, "loss_eval": float(reading.losses.double().mean())}
