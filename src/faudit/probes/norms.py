"""Hidden norms: the median over samples of ‖h_l‖, at every tap.

An exploding residual stream shows here first: the terminal LayerNorm hides it from loss and accuracy.
"""

from __future__ import annotations

from typing import Any

from faudit.probes.probe import Probe, Reading
from faudit.tensors import median, norms


class Norms(Probe):
    """``hidden_norms`` [L+1]: median per-sample L2 norm of each tap."""

    def measure(self, reading: Reading) -> dict[str, Any]:
        return {"hidden_norms": [median(norms(h)) for h in reading.taps]}
