"""The rule's update compared with BP's: the gradients that the optimizer gets, not only the credit.

The probe computes the rule's gradients on the evaluation buffer, with clipping, and the BP gradients of plain
cross-entropy at the same weights. It gives cos(u, u_BP) and ‖u‖/‖u_BP‖, over all parameters and for each part (embed,
blocks, readout). A rule may have a good credit and a useless update (because of a clip or a penalty), or the reverse.
Reference: Refinetti, d'Ascoli, Ohana & Goldt, ICML 2021 (gradient alignment of DFA).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.nets.net import is_buffer, part
from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.rules.bp import BP
from faudit.rules.rule import Rule, State
from faudit.tensors import cosines, norms


class Update(Probe):
    """Direction and size of the rule's update compared with BP's."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[Need, ...]] = (
        "parameters",
        "rule",
    )
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry("update_cosine", "scalar", "Cosine between the rule's update and BP's.", unit="cosine"),
        Entry("update_ratio", "scalar", "Norm of the rule's update divided by that of BP's.", unit="ratio"),
        Entry(
            "update_cosines",
            "parts",
            "The same cosine for each part: embed, blocks, readout; null if a part gets no update.",
            unit="cosine",
        ),
        Entry("update_ratios", "parts", "The same ratio for each part.", unit="ratio"),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        own, true = gradients_under(reading, reading.state), gradients_under(reading, {}, rule=BP())
        parts = [[name for name in true if part(name) == one] for one in reading.net.parts]
        pairs = [compared(own, true, names) if names else (None, None) for names in parts]
        cosine, ratio = compared(own, true, list(true))
        return {
            "update_cosine": cosine,
            "update_ratio": ratio,
            "update_cosines": [pair[0] for pair in pairs],
            "update_ratios": [pair[1] for pair in pairs],
        }


def gradients_under(reading: Reading, state: State, *, rule: Rule | None = None) -> dict[str, Tensor]:
    """The gradients that the rule of a reading, or another one, gives its parameters and state."""
    rule = rule or reading.rule
    with torch.enable_grad():
        params = {name: value.clone().requires_grad_(not is_buffer(name)) for name, value in reading.params.items()}
        own = {name: value.clone().requires_grad_(rule.trains_state(name)) for name, value in state.items()}
        return rule.step(reading.net, params, own, reading.x, reading.y, generator=reading.generator("step")).grads


def compared(own: dict[str, Tensor], true: dict[str, Tensor], names: list[str]) -> tuple[float | None, float | None]:
    """Cosine and ratio of norms of two updates over some parameters; untrained parameters count as zero."""
    mine, bp = (
        torch.cat(
            [grads[name].flatten() if name in grads else torch.zeros_like(true[name]).flatten() for name in names]
        )
        for grads in (own, true)
    )
    cosine = float(cosines(mine[None], bp[None]))
    size, reference = float(norms(mine[None])), float(norms(bp[None]))
    return (None if cosine != cosine else cosine), (size / reference if size and reference else None)
