"""Nudging: how the loss changes when a hidden state is moved against its credit; more negative is better.

    nudging        mean over samples of ℓ(h − η‖h‖·a/‖a‖) − ℓ(h), η = 0.01, in float64: a step relative to the state
    nudging_study  mean over samples of ℓ(h − η·a) − ℓ(h), η = 0.01, in the net's own precision, as the study does it

A random direction of the same length is the control: ``nudging_random``. Both leave out fitted samples
(``Reading.fitted``), as Γ does. ``nudging_study`` keeps the paper's definition over all samples.
Reference: arXiv 2606.21126 for ``nudging_study``. The relative step is ours.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import mean_defined, norms

STEP = 0.01


class Nudging(Probe):
    """The change of the loss after a small step against each block's credit."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "nudging",
            "blocks",
            "Mean change of the loss after a step of 1 % of ‖h‖ against the credit, in float64, over the samples that "
            "are not fitted; null where none has a credit.",
            unit="nats",
        ),
        Entry("nudging_random", "blocks", "Control: the same along a random direction.", unit="nats"),
        Entry(
            "nudging_study",
            "blocks",
            "As published: a step of 0.01 times the credit, in the network's own precision, over all samples.",
            unit="nats",
        ),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        return {
            "nudging": [relative(reading, block, reading.credits[block]) for block in range(reading.net.blocks)],
            "nudging_random": [relative(reading, block, noise(reading, block)) for block in range(reading.net.blocks)],
            "nudging_study": [absolute(reading, block) for block in range(reading.net.blocks)],
        }


def relative(reading: Reading, block: int, signal: Tensor) -> float | None:
    """The mean change of the loss after a step of 1 % of ‖h‖ against a signal; None where no open sample has one."""
    exact, tap = reading.doubled, reading.net.taught_at(block)
    h = exact.trace.taps[tap]
    signal = signal.double()
    step = STEP * norms(exact.taps[tap]) / norms(signal)  # NaN or infinite where there is no signal
    shift = reading.net.lift(step[:, None] * signal, h)
    change = exact.losses_from(tap, h - shift) - exact.losses
    return mean_defined(torch.where(norms(signal) > 0, change, torch.nan)[~reading.fitted])[0]


def absolute(reading: Reading, block: int) -> float | None:
    """The study's: a step of 0.01 times the credit itself."""
    tap = reading.net.taught_at(block)
    h, credit = reading.trace.taps[tap], reading.credits[block]
    if not bool(credit.any()):
        return None
    shift = reading.net.lift((STEP * credit).to(h.dtype), h)
    change = reading.losses_from(tap, h - shift) - reading.losses
    return float(change.double().mean())


def noise(reading: Reading, block: int) -> Tensor:
    """A direction that has nothing to do with the loss."""
    like = reading.taps[reading.net.taught_at(block)]
    return torch.randn(like.shape, generator=reading.generator(f"nudge.{block}"), dtype=torch.float64).to(like.device)
