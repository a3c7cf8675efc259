"""Swap: does the rule's update depend on its feedback at all?

The probe computes the rule's gradients on the evaluation buffer with its own feedback and with feedback that knows
nothing of the weights (``Rule.fresh``). All else is the same, what the rule draws inside a step included. It gives
cos(u(B), u(B′)) of the two updates, over all parameters and for each part. It is 1 where the feedback is not used, as
in a linear readout, which the true loss teaches. The feedback check asks the same of the credit, which a rule may
report without training with it. Costs two steps of the rule.
Reference: ours. It applies the null of arXiv 2606.21126, feedback drawn afresh, to the update.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faudit.nets.net import part
from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.probes.update import compared, gradients_under


class Swap(Probe):
    """How much of the rule's update is the same with other feedback."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = (
        "parameters",
        "rule",
    )
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "swap_cosine",
            "scalar",
            "Cosine between the rule's update and the same under fresh feedback; null for a rule without feedback.",
            unit="cosine",
        ),
        Entry(
            "swap_cosines",
            "parts",
            "The same cosine for each part: embed, blocks, readout; null if a part gets no update.",
            unit="cosine",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        parts = reading.net.parts
        if not any(reading.rule.is_feedback(name) for name in reading.state):
            return {"swap_cosine": None, "swap_cosines": [None] * len(parts)}
        own, other = (gradients_under(reading, state) for state in (reading.state, reading.fresh_state("swap")))
        named = [[name for name in own if name in reading.params and part(name) == one] for one in parts]
        return {
            "swap_cosine": compared(own, other, [name for names in named for name in names])[0],
            "swap_cosines": [compared(own, other, names)[0] if names else None for names in named],
        }
