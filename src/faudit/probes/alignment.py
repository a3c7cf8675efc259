"""Alignment Γ: per block, the mean over samples of cos(a_l, g_l), credit against true gradient.

A sample whose credit or gradient is exactly zero has no cosine: it is left out and counted, never scored as 0 or 1.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined


class Alignment(Probe):
    """Γ, the alignment of each block's credit with the true gradient."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "gamma",
            "blocks",
            "Γ, the mean over the samples of cos(credit, gradient); null where no sample has a cosine.",
            unit="cosine",
            symbol=r"\Gamma_l",
            required=True,
        ),
        Entry(
            "gamma_undefined",
            "blocks",
            "How many samples have no cosine, because their credit or their gradient is zero.",
            kind="count",
            unit="samples",
            required=True,
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        references = [reading.gradients[reading.net.taught_at(l)] for l in range(reading.net.blocks)]
        pairs = zip(reading.credits, references, strict=True)
        measured = [mean_defined(cosines(credit, gradient)) for credit, gradient in pairs]
        return {"gamma": [mean for mean, _ in measured], "gamma_undefined": [undefined for _, undefined in measured]}
