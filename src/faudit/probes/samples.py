"""Own samples: is a sample's credit nearer to its own gradient than to the gradients of other samples?

Γ pairs each credit with the gradient of the same sample. The probe gives the mean and the standard deviation of Γ over
all ways to pair the samples (permutations), in closed form: with C_ij the cosine of credit i and gradient j,

    mean = mean_ij C_ij,   variance = Σ_ij D_ij² / (n² (n − 1)),   D = C minus its row and column means plus its mean.

A rule that confuses samples or labels has a Γ inside this spread, though the cosines of all samples may be positive.
Fitted samples (``Reading.fitted``) and samples without a credit or gradient are left out, as in Γ.
Reference: mean and variance over permutations by Hoeffding, Annals of Mathematical Statistics 22, 1951.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import norms

CHUNK = 256  # credits that are compared with all gradients at a time


class Samples(Probe):
    """Γ between the credits and gradients of different samples."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "gamma_others",
            "blocks",
            "Mean of Γ over all pairings of credits with gradients of any sample; null with fewer than two samples.",
            unit="cosine",
        ),
        Entry("gamma_others_std", "blocks", "Standard deviation of Γ over the same pairings.", unit="cosine"),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        references = (reading.gradients[reading.net.taught_at(l)] for l in range(reading.net.blocks))
        pairs = zip(reading.credits, references, strict=True)
        found = [paired(credit[~reading.fitted], gradient[~reading.fitted]) for credit, gradient in pairs]
        return {"gamma_others": [mean for mean, _ in found], "gamma_others_std": [std for _, std in found]}


def paired(credits: Tensor, gradients: Tensor) -> tuple[float | None, float | None]:
    """Mean and standard deviation over all permutations π of the mean over i of cos(a_i, g_π(i))."""
    sizes = norms(credits), norms(gradients)
    known = torch.stack([(size > 0) & size.isfinite() for size in sizes]).all(dim=0)
    n = int(known.sum())
    if n < 2:
        return None, None
    a, g = ((rows.double() / size[:, None])[known] for rows, size in zip((credits, gradients), sizes, strict=True))
    by_row, by_column = a @ g.mean(dim=0), g @ a.mean(dim=0)
    mean = by_row.mean()
    total = torch.zeros_like(mean)
    for rows, means in zip(torch.split(a, CHUNK), torch.split(by_row, CHUNK), strict=True):
        total += (rows @ g.T - means[:, None] - by_column + mean).square().sum()
    return float(mean), sqrt(float(total) / (n - 1)) / n
