"""Rank of the reference: do different samples have different gradients?

Each sample's gradient at a tap is scaled to length 1. The effective rank of the n directions is their participation
ratio, 1 / mean over i ≠ j of cos²(g_i, g_j). It is 1 if all gradients lie on one line, with either sign, and at most C
− 1 below a linear head with C classes. Cosines with a reference of rank 1 do not distinguish the samples. Rows of
exactly zero are left out. Fitted samples (``Reading.fitted``) stay in: ``reference`` judges their precision.
Reference: the participation ratio of Gao et al., bioRxiv 214262, 2017, here without the pair of a sample with itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import norms


class Rank(Probe):
    """The effective number of directions of the samples' gradients at each tap."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "reference_rank",
            "taps",
            "Effective rank of the samples' gradient directions; null if fewer than two samples have a gradient.",
            unit="directions",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        return {"reference_rank": [effective_rank(gradient) for gradient in reading.gradients]}


def effective_rank(vectors: Tensor) -> float | None:
    """1 / mean cos² over pairs of different rows; rows that are zero or not finite are left out."""
    vectors = vectors.flatten(1).double()
    sizes = norms(vectors)
    known = vectors[sizes.isfinite() & (sizes > 0)]
    n = len(known)
    if n < 2:
        return None
    units = known / norms(known)[:, None]
    small = (
        units.T @ units if units.shape[1] < n else units @ units.T
    )  # both Gram matrices have the same sum of squares
    pairs = (float(torch.linalg.matrix_norm(small) ** 2) - n) / (n * (n - 1))
    return min(1.0 / pairs, float(n)) if pairs > 0 else float(n)  # n orthogonal directions
