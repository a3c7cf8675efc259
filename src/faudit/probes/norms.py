"""Hidden norms: the median over samples of ‖h_l‖, at every tap.

An exploding residual stream shows here first, because the terminal LayerNorm hides it from loss and accuracy.
Reference: arXiv 2606.21126 (its first check, the scale of the stream).
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import median, norms


class Norms(Probe):
    """The size of the hidden state at each tap."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 1
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "hidden_norms",
            "taps",
            "Median over the samples of ‖h_l‖.",
            unit="L2 norm",
            symbol=r"\|h_l\|",
            required=True,
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        return {"hidden_norms": [median(norms(h)) for h in reading.taps]}
