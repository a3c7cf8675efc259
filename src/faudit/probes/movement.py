"""Movement: has every weight matrix of every block turned away from its initial value?

The probe computes sin∠(W, W_0) between each matrix W of a block and its initial value W_0, and takes the smallest. A
block that never trains, is dead or saturated, or whose update is clipped to zero has a matrix that does not turn. The
measure is an angle and not a distance, because weight decay alone shrinks a matrix but does not turn it.
Reference: layer rotation by Carbonnelle & De Vleeschouwer, arXiv 1806.01603. They take 1 − cos∠(W, W_0) for each layer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from faudit.nets.net import part
from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import cosines, norms


class Movement(Probe):
    """The angle by which the weight matrices of each block have turned from their initial values."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = ("parameters",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "block_turn",
            "blocks",
            "Smallest sin∠(W, W_0) over the matrices of a block; null if the initial weights are not known.",
            unit="sine",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        blocks = [f"blocks.{l}" for l in range(reading.net.blocks)]
        if reading.initial is None:
            return {"block_turn": [None for _ in blocks]}
        turns = {name: turn(value, reading.initial[name]) for name, value in reading.params.items() if value.dim() > 1}
        own = [[angle for name, angle in turns.items() if part(name) == block] for block in blocks]
        return {"block_turn": [min(angles, default=None) for angles in own]}


def turn(now: Tensor, began: Tensor) -> float:
    """The norm of the part of ``now`` that is orthogonal to ``began``, divided by the norm of ``now``.

    Computed by projection, because 1 − cos² loses half of the digits of a small angle. A matrix that began at zero
    counts as fully turned after any step. A matrix that is zero now counts as not turned.
    """
    a, b = now.detach().double().reshape(1, -1), began.to(now.device).double().reshape(1, -1)
    if not bool(b.any()):
        return 1.0 if bool(a.any()) else 0.0
    if not bool(a.any()):
        return 0.0
    if bool((a == b).all()):
        return 0.0
    across = a - float(cosines(a, b)) * norms(a) * b / norms(b)
    return float(norms(across) / norms(a))
