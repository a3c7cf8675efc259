"""Reference: does the true gradient that Γ is held against still mean anything?

The gradient is computed again in float64. The check asks whether its direction is the same, sample by sample, at every
tap. It leaves out the fitted samples, as Γ does, and says nothing where more than three in four are fitted. The paper
asks for a size instead (``floor``), and so mistakes a good fit for a broken reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least
from faudit.store.rows import Row

OPEN = 0.25  # least share of samples whose error the network's own precision can hold


@dataclass(frozen=True)
class Reference(Check):
    """The gradient's precision: on how many samples float64 agrees with its direction."""

    name: ClassVar[str] = "reference"
    reads: ClassVar[tuple[str, ...]] = ("precision_agree", "precision_fitted", "eval_samples")
    within: ClassVar[tuple[float, float]] = (0.0, 1.0)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"agreement": (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)}

    agreement: float = 0.95  # fires below: the share of samples on whose direction float64 agrees

    def find(self, case: Case) -> Finding:
        row, limit = case.last, self.agreement
        if case.is_double:
            return self.finding(NOT_APPLICABLE, "the network itself is computed in float64", threshold=limit)
        if self.lacks_entries(row) or not row["precision_agree"]:
            return self.finding(NOT_MEASURED, "the gradient was not recomputed in float64", threshold=limit)
        shares = [share for _, share in case.at_taps("precision_agree")]
        if why := too_few(row, shares):
            return self.finding(NOT_MEASURED, why, threshold=limit)
        value, fitted = min(shares), row["precision_fitted"]
        besides = f" ({fitted} fitted to the last bit left out)" if fitted else ""
        reason = (
            f"float64 agrees on the gradient's direction for {value:.1%} of the samples{besides} at the worst tap, "
            f"needed {limit:.0%}"
        )
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)


def too_few(row: Row, shares: Sequence[float | None]) -> str | None:
    """Why too few samples are left to ask; None where enough are."""
    fitted, samples = row["precision_fitted"], row["eval_samples"]
    if 1.0 - fitted / samples < OPEN:
        return f"{fitted} of {samples} samples are fitted to the last bit: too few are left"
    if None in shares:
        return "at some tap every sample is fitted to the last bit or has a gradient of exactly zero"
    return None
