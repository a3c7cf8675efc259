"""Cross-batch stability: is the reference one fixed direction whatever the samples?

The buffer is cut into 8 disjoint batches; the BP gradient at tap L // 2 is averaged over each, normalised, and the mean
pairwise cosine taken. Near 1, every batch has the same "gradient": a label for the kind of failure in which a network
has stopped looking at its input, not a test of its own. Fitted samples (``Reading.fitted``) stay in: their gradients
are tiny and hardly move the mean of a batch.
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
    """Whether the mean gradient has one direction, whatever the batch."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "stability",
            "scalar",
            "Mean cosine between the mean gradients of 8 disjoint batches at tap L // 2; null where one is zero.",
            unit="cosine",
        ),
        Entry(
            "stability_samples", "scalar", "How many samples each of these batches has.", kind="count", unit="samples"
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
