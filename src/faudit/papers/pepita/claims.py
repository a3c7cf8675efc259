"""The claims: the accuracy over the epochs. Their epoch 0 is after the first pass, which is epoch 1 of our rows."""

from __future__ import annotations

from faudit.papers.claim import Claim, Part, at_epoch, full_accuracy

ACCURACIES = {9: 45.1, 19: 48.6, 39: 51.7, 60: 52.5, 99: 52.6}  # their epoch → percent


def accuracy(epoch: int, percent: float) -> Claim:
    part = Part("accuracy", ("PEPITA",), at_epoch(epoch + 1, full_accuracy), "accuracy", percent / 100, within=0.015)
    return Claim(f"accuracy at epoch {epoch}", f"{percent} %", (part,))


CLAIMS: tuple[Claim, ...] = tuple(accuracy(epoch, percent) for epoch, percent in ACCURACIES.items())
