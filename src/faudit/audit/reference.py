"""Reference: does the true gradient that Γ is held against still mean anything?

By precision (``faudit-1``): recomputed in float64, is its direction the same, sample by sample, at every tap? By
magnitude (``study``): is ‖∂ℓ/∂h_L‖ per sample above a floor? The second mistakes a good fit for a broken reference.
"""

from __future__ import annotations

from faudit.audit.check import FIRED, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.audit.protocol import Protocol
from faudit.rows import Row


class Reference(Check):
    """The gradient's precision, or its size."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        by_precision = protocol.agreement is not None
        limit = protocol.agreement if by_precision else protocol.floor
        assert limit is not None, "a protocol has one of the two"
        measured = [(row["epoch"], agreement(row) if by_precision else smallest(row)) for row in case.rows]
        value = measured[-1][1]
        first = next((epoch for epoch, one in measured if one is not None and one < limit), None)
        if value is None:
            missing = "no gradient norm at the last tap"
            if by_precision:
                missing = (
                    "at some tap every sample is fitted to the last bit or has a gradient of exactly zero"
                    if case.last.get("precision_agree")
                    else "the gradient was not recomputed in float64"
                )
            return Finding("reference", NOT_MEASURED, missing, threshold=limit, first_fire=first)
        reason = (
            f"float64 agrees on the gradient's direction for {value:.1%} of the samples at the worst tap, "
            f"needed {limit:.0%}"
            if by_precision
            else f"the gradient at the last tap is {value:.2g} per sample, the floor {limit:g}"
        )
        status = FIRED if value < limit else PASSED
        return Finding("reference", status, reason, value=value, threshold=limit, first_fire=first)


def agreement(row: Row) -> float | None:
    """The share of samples on which float64 agrees, at the tap where it is least."""
    shares = row.get("precision_agree")
    return min(shares) if shares and None not in shares else None


def smallest(row: Row) -> float | None:
    """The gradient's median norm at the last tap."""
    norms = row.get("grad_norms")
    return norms[-1] if norms else None
