"""Weight angle: has a forward weight turned towards the feedback matrix that replaces it?

For each feedback matrix whose forward weight the rule names (``Rule.forward_of``), and only if the shapes agree:
``weight_angle`` is the angle between the two as vectors, in degrees, and ``weight_cosine`` the mean cosine between
their columns. For DFA a column belongs to a class, because B_l replaces the head along the skip path.
Reference: Lillicrap et al., Nature Communications 7, 2016; the angle as in Akrout et al., NeurIPS 2019.
"""

from __future__ import annotations

from math import degrees
from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, mean_defined, norms


class Weights(Probe):
    """The angle between each feedback matrix and the forward weight that it replaces."""

    tier: ClassVar[Tier] = "cheap"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[Need, ...]] = (
        "parameters",
        "rule",
    )
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "weight_cosine",
            "feedback",
            "Mean over the columns of the cosine between feedback and forward weight; null if their shapes differ.",
            unit="cosine",
        ),
        Entry(
            "weight_angle",
            "feedback",
            "Angle between feedback and forward weight as vectors; null if their shapes differ.",
            unit="degrees",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        forward = reading.rule.forward_of(reading.net, reading.params)
        pairs = [(reading.state[name], weight) for name, weight in forward.items()]
        alike = [(b.flatten(1), w.flatten(1)) if b.shape == w.shape else None for b, w in pairs]
        return {
            "weight_cosine": [mean_defined(cosines(pair[0].T, pair[1].T))[0] if pair else None for pair in alike],
            "weight_angle": [angle(*pair) if pair else None for pair in alike],
        }


def angle(b: Tensor, w: Tensor) -> float | None:
    """The angle between two matrices as vectors, in degrees; None if one is zero.

    2·atan2(‖u − v‖, ‖u + v‖) of the unit vectors: an arccosine loses half of the digits of a small angle.
    """
    b, w = b.double().reshape(1, -1), w.double().reshape(1, -1)
    sizes = [float(norms(matrix)) for matrix in (b, w)]
    if not all(sizes):
        return None
    u, v = b[0] / sizes[0], w[0] / sizes[1]
    return degrees(2.0 * float(torch.atan2((u - v).norm(), (u + v).norm())))
