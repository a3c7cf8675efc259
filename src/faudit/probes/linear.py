"""Linear probes: how well a linear map predicts the label from each tap.

The map is a ridge regression of the one-hot labels Y on the features X of a tap, W = (XᵀX + λnI)⁻¹XᵀY with λ = 1e-3, in
float64. It is fitted on the even samples of the buffer and scored on the odd ones. Features are centred and scaled to
unit mean square, so the norm of the stream does not matter. A block that adds nothing leaves the accuracy of its tap
unchanged.
Reference: Alain & Bengio, arXiv 1610.01644, 2016; ridge regression by Hoerl & Kennard, Technometrics 12, 1970.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading

RIDGE = 1e-3  # relative to the number of samples, for features of unit mean square


class LinearProbe(Probe):
    """The accuracy of a linear map from each tap to the labels."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = ("classes",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "linear_acc",
            "taps",
            "Accuracy of a ridge regression from the tap to the labels, on the half of the buffer that was not fitted.",
            unit="accuracy",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        return {"linear_acc": [accuracy(h.double(), reading.y, reading.net.classes) for h in reading.taps]}


def accuracy(features: Tensor, y: Tensor, classes: int) -> float | None:
    """Fit on the even samples, score on the odd ones."""
    fit, test = features[::2], features[1::2]
    if len(test) == 0 or not bool(features.isfinite().all()):
        return None
    centre = fit.mean(dim=0)
    scale = (fit - centre).square().mean().sqrt()
    if scale == 0:
        scale = torch.ones_like(scale)  # a tap that is equal for all samples predicts nothing
    a, b = (fit - centre) / scale, (test - centre) / scale
    targets = F.one_hot(y[::2], classes).double()
    mean = targets.mean(dim=0)
    # With more features than samples, the dual form gives the same solution from a smaller system.
    if a.shape[1] <= a.shape[0]:
        eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
        weights = torch.linalg.solve(a.T @ a + RIDGE * len(a) * eye, a.T @ (targets - mean))
        scores = b @ weights + mean
    else:
        eye = torch.eye(a.shape[0], dtype=a.dtype, device=a.device)
        scores = (b @ a.T) @ torch.linalg.solve(a @ a.T + RIDGE * len(a) * eye, targets - mean) + mean
    return float((scores.argmax(dim=1) == y[1::2]).double().mean())
