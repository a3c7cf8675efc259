"""The claims: the accuracy after 1, 5 and 10 epochs."""

from __future__ import annotations

from faudit.papers.claim import Claim, Part, at_epoch, full_accuracy


def accuracy(epoch: int, published: float) -> Claim:
    part = Part("accuracy", ("EP",), at_epoch(epoch, full_accuracy), "accuracy", published, within=0.004)
    return Claim(f"accuracy at epoch {epoch}", f"{published:.3f}".lstrip("0"), (part,))


CLAIMS: tuple[Claim, ...] = (accuracy(1, 0.949), accuracy(5, 0.978), accuracy(10, 0.982))
