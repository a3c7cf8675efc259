"""Cross-batch stability: do all batches have the same mean gradient direction?

The buffer is split into 8 disjoint batches. The BP gradient at tap L // 2 is averaged over each batch b, and the mean
pairwise cosine of these averages is taken: mean over b < c of cos(ḡ_b, ḡ_c). Near 1, the gradient no longer depends on
the input. This is a label for the kind of failure, not a test. Fitted samples (``Reading.fitted``) stay in: their
gradients are tiny.
Reference: arXiv 2606.21126.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import torch

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined

BATCHES = 8


class Stability(Probe):
    """The mean cosine between the mean gradients of disjoint batches."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "stability",
            "scalar",
            "Mean cosine between the mean gradients of 8 disjoint batches at tap L // 2; null if one is zero.",
            unit="cosine",
        ),
        Entry(
            "stability_samples", "scalar", "Number of samples in each of these batches.", kind="count", unit="samples"
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        gradient = reading.gradients[(len(reading.gradients) - 1) // 2].double()  # h_0 … h_L: tap L // 2
        size = len(gradient) // BATCHES
        if size == 0:
            return {"stability": None, "stability_samples": 0}
        means = gradient[: size * BATCHES].reshape(BATCHES, size, -1).mean(dim=1)  # [batch, features]
        pairs = list(combinations(range(BATCHES), 2))
        first, second = (means[torch.tensor([pair[side] for pair in pairs])] for side in (0, 1))
        mean, undefined = mean_defined(cosines(first, second))
        return {"stability": None if undefined else mean, "stability_samples": size}
