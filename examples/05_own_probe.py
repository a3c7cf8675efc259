"""Write your own probe in one file, and measure it on a trained run.

The probe measures how many directions the hidden states span at each tap: the participation ratio of the variances
along their principal axes. A low number means that one direction dominates the stream.
"""

from typing import Any, ClassVar

import torch

from faudit import Probe, Reading, RunConfig, fit
from faudit.audit.measure import reading_of
from faudit.probes import Entry


class HiddenDimension(Probe):
    """(Σ λ)² / Σ λ² over the variances λ of the hidden states along their principal axes."""

    entries: ClassVar[tuple[Entry, ...]] = (
        Entry("hidden_dimension", "taps", "How many directions the hidden states span.", unit="directions"),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        centred = [h.double() - h.double().mean(dim=0) for h in reading.taps]
        variances = [torch.linalg.svdvals(h).square() for h in centred]
        return {"hidden_dimension": [float(v.sum().square() / v.square().sum()) for v in variances]}


if __name__ == "__main__":
    for rule in ("bp", "dfa"):
        config = RunConfig(rule=rule, data="digits", epochs=5, batch_size=32, width=64)
        run = fit(config, runs="runs")
        reading, epoch = reading_of(run, config)
        spans = HiddenDimension().measure(reading)["hidden_dimension"]
        print(f"{rule:>4}, epoch {epoch}: directions at each tap: {', '.join(f'{span:.1f}' for span in spans)}")
