"""Rank: do different samples have different gradients, or is the reference one direction?

The check reads the smallest effective rank over the taps of the samples' gradient directions. At rank 1 all gradients
lie on one line, so a cosine with them does not distinguish the samples. Below a linear head with C classes the rank is
at most C − 1. So the check does not apply to a network with fewer than four classes or with outputs that are not
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least

CLASSES = 4


@dataclass(frozen=True)
class Rank(Check):
    """The smallest effective rank of the reference."""

    name: ClassVar[str] = "rank"
    reads: ClassVar[tuple[str, ...]] = ("reference_rank",)
    within: ClassVar[tuple[float, float]] = (1.0, inf)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"rank": (1.1, 1.25, 1.5, 2.0, 3.0)}

    rank: float = 2.0  # fires below: effective number of directions of the samples' gradients

    def find(self, case: Case) -> Finding:
        limit = self.rank
        if case.classes < CLASSES:
            return self.finding(NOT_APPLICABLE, "with fewer than four classes the gradients always span few directions")
        ranks = case.at_taps("reference_rank")
        if not ranks or any(rank is None for _, rank in ranks):
            return self.finding(NOT_MEASURED, "the rank of the reference was not measured", threshold=limit)
        tap, value = min(ranks, key=lambda pair: float(pair[1]))
        reason = f"the samples' gradients span {value:.2g} directions at tap {tap}, needed {limit:g}"
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)
