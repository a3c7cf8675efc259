"""How Γ is spread over the samples, and how far from 0 chance alone takes it.

Two independent random directions in d dimensions have a cosine of variance 1/d, so the mean over n samples stays within
± 1.96/√(d·n) nineteen times in twenty. Feedback that is shared by all samples makes their cosines hang together: for a
rule with feedback the null of fresh draws (``gamma_null_mean``, ``gamma_null_std``) is the wider and the fairer band.
The ends are kept apart from the interior: block 0 is nearest the input and, in block-level FA, the last block is taught
the exact gradient by construction. Fitted samples (``Reading.fitted``) are left out, as they are in Γ, and n does not
count them.
Reference: Vershynin, High-Dimensional Probability, 2018, section 3.2 (cosines of random directions).
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean
from typing import Any, ClassVar

import torch

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Distribution(Probe):
    """How the samples' cosines are spread, and Γ at the ends and in the interior of the network."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "gamma_quantiles",
            "quantiles",
            "The 5, 25, 50, 75 and 95 % quantiles of the cosines whose mean is Γ; null where there are none.",
            unit="cosine",
        ),
        Entry(
            "gamma_chance",
            "blocks",
            "1.96/√(d·n), half the width of the 95 % interval of Γ between random directions; n counts the cosines.",
            unit="cosine",
        ),
        Entry("gamma_first", "scalar", "Γ of the first block.", unit="cosine"),
        Entry(
            "gamma_interior",
            "scalar",
            "Mean Γ of the blocks between first and last; null where one has none.",
            unit="cosine",
        ),
        Entry("gamma_last", "scalar", "Γ of the last block.", unit="cosine"),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        gradients = [reading.gradients[reading.net.taught_at(l)] for l in range(reading.net.blocks)]
        angles = [cosines(credit, g)[~reading.fitted] for credit, g in zip(reading.credits, gradients, strict=True)]
        known = [angle[~angle.isnan()] for angle in angles]
        levels = torch.tensor(QUANTILES, dtype=torch.float64, device=reading.x.device)
        means = [mean_defined(angle)[0] for angle in angles]
        interior = [mean for mean in means[1:-1] if mean is not None]
        return {
            "gamma_quantiles": [torch.quantile(one, levels).tolist() if len(one) else None for one in known],
            "gamma_chance": [
                1.96 / sqrt(gradient.shape[1] * len(one)) if len(one) else None
                for one, gradient in zip(known, gradients, strict=True)
            ],
            "gamma_first": means[0],
            "gamma_interior": fmean(interior) if interior and len(interior) == len(means) - 2 else None,
            "gamma_last": means[-1],
        }
