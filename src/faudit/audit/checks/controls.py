"""Controls: does the measurement give the right answer where the answer is known?

The BP gradient as credit must predict the changes of the loss (ρ > .99 at every block), and a random vector must not.
The exact gradient as credit must have Γ near 1 against the reference of Γ. If a control fails, the measurement is
invalid and the finding says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from faudit.audit.checks.check import INVALID, NOT_APPLICABLE, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.store.rows import Row

GAMMA = 0.9  # smallest valid Γ of the exact gradient; below it, the reference is wrong


@dataclass(frozen=True)
class Controls(Check):
    """ρ of the BP gradient and of noise, Γ of the exact gradient."""

    name: ClassVar[str] = "controls"
    reads: ClassVar[tuple[str, ...]] = ("rho_valid", "rho_bp", "rho_random", "gamma_bp")
    within: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def find(self, case: Case) -> Finding:
        row = case.last
        if case.null_of is None:
            return self.finding(NOT_APPLICABLE, case.lacks_credit)
        if self.lacks_entries(row):
            return self.finding(NOT_MEASURED, "no perturbation was made")
        known = [value for value in row["rho_bp"] if value is not None]
        value = min(known, default=None)
        failed = [block for block, valid in enumerate(row["rho_valid"]) if not valid]
        if (block := gamma_fails(row)) is not None:
            reason = (
                f"at block {block} the exact gradient as credit has Γ {signed(row['gamma_bp'][block])} (needed {GAMMA})"
            )
            return self.finding(INVALID, reason, value=value)
        if not failed:
            reason = f"the BP gradient as credit has ρ ≥ {value:.4f} at every block, a random vector none"
            return self.finding(PASSED, reason, value=value)
        block = failed[0]
        bp, noise = (signed(row[name][block]) for name in ("rho_bp", "rho_random"))
        reason = f"at block {block} the BP gradient as credit has ρ {bp} (needed .99) and a random vector {noise}"
        return self.finding(INVALID, reason, value=value)


def gamma_fails(row: Row) -> int | None:
    """The first block at which Γ of the exact gradient is too small."""
    return next((block for block, score in enumerate(row["gamma_bp"]) if score is None or score < GAMMA), None)


def signed(value: float | None) -> str:
    return "undefined" if value is None else f"{value:+.4f}"
