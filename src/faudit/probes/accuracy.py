"""Accuracy and loss on the evaluation buffer."""

from __future__ import annotations

from typing import Any

from faudit.probes.probe import Probe, Reading


class Accuracy(Probe):
    """``acc_eval``, the share of samples classified right; ``loss_eval``, their mean cross-entropy."""

    def measure(self, reading: Reading) -> dict[str, Any]:
        right = reading.trace.logits.argmax(dim=1) == reading.y
        return {"acc_eval": float(right.double().mean()), "loss_eval": float(reading.losses.double().mean())}
