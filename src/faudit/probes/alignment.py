"""Alignment Γ: per block, the mean over samples of cos(a_l, g_l), credit against true gradient.

Two kinds of samples are left out and counted. A fitted sample has an output error below the precision of the network
(``Reading.fitted``): its cosine is one of rounding errors. A sample whose credit or gradient is exactly zero has no
cosine. Neither is scored as 0 or 1.
Reference: the angle of Lillicrap et al., Nature Communications 7, 2016, as a cosine per block (arXiv 2606.21126).
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined


class Alignment(Probe):
    """Γ, the alignment of each block's credit with the true gradient."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "gamma",
            "blocks",
            "Γ, the mean of cos(credit, gradient) over the samples that are not fitted; null where none has a cosine.",
            unit="cosine",
            symbol=r"\Gamma_l",
            required=True,
        ),
        Entry(
            "gamma_undefined",
            "blocks",
            "How many of these samples have no cosine, because their credit or their gradient is zero.",
            kind="count",
            unit="samples",
            required=True,
        ),
        Entry(
            "fitted",
            "scalar",
            "Samples whose output error is below the precision of the network; Γ, ρ and nudging leave them out.",
            kind="count",
            unit="samples",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        references = [reading.gradients[reading.net.taught_at(l)] for l in range(reading.net.blocks)]
        pairs = zip(reading.credits, references, strict=True)
        measured = [mean_defined(cosines(credit, gradient)[~reading.fitted]) for credit, gradient in pairs]
        return {
            "gamma": [mean for mean, _ in measured],
            "gamma_undefined": [undefined for _, undefined in measured],
            "fitted": int(reading.fitted.sum()),
        }
