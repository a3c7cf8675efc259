"""Blocks: is Γ of every deep block more than chance?

``null`` asks the mean of the deep blocks, which one good block can carry: the last hidden layer is taught through the
readout's feedback alone, whatever the feedback below is. This check asks each deep block whose credit depends on
feedback (l ≥ 1; all taps of a foreign model): its Γ with the feedback the network was trained with, in standard
deviations of its Γ under feedback drawn afresh. It fires when one of them is not above the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import NOT_APPLICABLE, UNDECIDED, Case, Check, Finding, at_least
from faudit.audit.checks.null import fed_blocks, first_block, means_over, not_asked, score


@dataclass(frozen=True)
class Blocks(Check):
    """Γ of the worst deep block in standard deviations of its null."""

    name: ClassVar[str] = "blocks"
    reads: ClassVar[tuple[str, ...]] = ("gamma", "gamma_null_draws", "gamma_null_std", "gamma_bp")
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"each": (1.0, 1.77, 2.5, 3.0, 4.0)}

    each: float = 4.0  # fires where a block is not so many standard deviations above chance

    def find(self, case: Case) -> Finding:
        row, limit = case.last, self.each
        if early := not_asked(self, case, threshold=limit):
            return early
        fed = fed_blocks(row, first=first_block(case))
        if not fed:
            return self.finding(NOT_APPLICABLE, "no deep block is taught through feedback", threshold=limit)
        if unknown := [block for block in fed if len(set(means_over(row, [block]))) < 2]:
            reason = f"too few draws of fresh feedback have a Γ at block {unknown[0]}: chance is not known"
            return self.finding(UNDECIDED, reason, threshold=limit)
        value, block = min((score(row, [block]), block) for block in fed)
        reason = f"Γ of block {block} is {value:+.1f} standard deviations from that of {case.null_of}"
        return self.finding(at_least(value, limit), f"{reason}, needed {limit:+.2f}", value=value, threshold=limit)
