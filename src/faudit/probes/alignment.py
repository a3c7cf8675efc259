"""Alignment Γ: per block, the mean over samples of cos(a_l, g_l), credit against true gradient.

A sample whose credit or gradient is exactly zero has no cosine: it is left out and counted, never scored as 0 or 1.
"""

from __future__ import annotations

from typing import Any

from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined


class Alignment(Probe):
    """``gamma`` [L], null where no sample has a cosine; ``gamma_undefined`` [L], how many samples have none."""

    def measure(self, reading: Reading) -> dict[str, Any]:
        references = [reading.gradients[reading.net.taught_at(l)] for l in range(reading.net.blocks)]
        pairs = zip(reading.credits, references, strict=True)
        measured = [mean_defined(cosines(credit, gradient)) for credit, gradient in pairs]
        return {"gamma": [mean for mean, _ in measured], "gamma_undefined": [undefined for _, undefined in measured]}
