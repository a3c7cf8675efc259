"""Samples: is a sample taught with its own credit, or would that of any other sample do?

Γ of each deep block (l ≥ 1; all taps of a foreign model) in standard deviations of Γ over all pairings of credits with
the gradients of other samples. The gradients of all samples share a direction, so a rule that confuses samples or
labels can have a Γ above random directions. The check fires when a block is not above the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import UNDECIDED, Case, Check, Finding, at_least
from faudit.audit.checks.null import first_block, not_asked


@dataclass(frozen=True)
class Samples(Check):
    """Γ of the worst deep block in standard deviations of Γ between samples."""

    name: ClassVar[str] = "samples"
    reads: ClassVar[tuple[str, ...]] = ("gamma", "gamma_others", "gamma_others_std", "gamma_bp")
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"own": (1.0, 2.0, 3.0, 4.0, 6.0)}

    own: float = 3.0  # fires where a block is not so many standard deviations above other samples

    def find(self, case: Case) -> Finding:
        row, limit = case.last, self.own
        if early := not_asked(self, case, threshold=limit):
            return early
        deep = range(first_block(case), len(row["gamma"]))
        if unknown := [block for block in deep if not row["gamma_others_std"][block]]:
            reason = f"at block {unknown[0]} all pairings of samples have the same Γ"
            return self.finding(UNDECIDED, reason, threshold=limit)
        scores = ((row["gamma"][block] - row["gamma_others"][block]) / row["gamma_others_std"][block] for block in deep)
        value, block = min(zip(scores, deep, strict=True))
        reason = f"Γ of block {block} is {value:+.1f} standard deviations from that of other samples"
        return self.finding(at_least(value, limit), f"{reason}, needed {limit:+.1f}", value=value, threshold=limit)
