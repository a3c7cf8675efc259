"""Weight angle: has a forward weight turned towards the feedback matrix that replaces it?

The probe computes the mean over the classes of cos(column of B_l, row of the head), because B_l replaces the head along
the skip path. It is defined only for a rule that names the forward weight of its feedback (``Rule.forward_of``), and
only if the shapes agree.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined


class Weights(Probe):
    """The cosine between each feedback matrix and the forward weight that it replaces."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = (
        "parameters",
        "rule",
    )
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "weight_cosine",
            "signals",
            "Mean over the classes of the cosine between feedback and forward weight; null if there is none.",
            unit="cosine",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        forward = reading.rule.forward_of(reading.net, reading.params)
        pairs = [(reading.state.get(f"B.{l}"), forward.get(f"B.{l}")) for l in range(reading.net.signals)]
        return {
            "weight_cosine": [
                mean_defined(cosines(b.T, w.T))[0] if b is not None and w is not None and b.shape == w.shape else None
                for b, w in pairs
            ]
        }
