"""Reference: does the true gradient that Γ is held against still mean anything?

By precision (``faudit-1``): recomputed in float64, is its direction the same, sample by sample, at every tap? By
magnitude (``study``): is ‖∂ℓ/∂h_L‖ per sample above a floor? The second mistakes a good fit for a broken reference.
The first leaves out samples that are fitted to the last bit, and says nothing where more than three in four are.
"""

from __future__ import annotations

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least
from faudit.audit.protocol import Protocol
from faudit.store.rows import Row

OPEN = 0.25  # least share of samples whose error the network's own precision can hold


class Reference(Check):
    """The gradient's precision, or its size."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        by_precision = protocol.agreement is not None
        limit = protocol.agreement if by_precision else protocol.floor
        assert limit is not None, "a protocol has one of the two"
        if by_precision and case.is_double:
            return Finding("reference", NOT_APPLICABLE, "the network itself is computed in float64", threshold=limit)
        value = agreement(case.last) if by_precision else smallest(case.last)
        if value is None:
            missing = why_not(case.last) if by_precision else "no gradient norm at the last tap"
            return Finding("reference", NOT_MEASURED, missing, threshold=limit)
        fitted = case.last.get("precision_fitted") or 0
        besides = f" ({fitted} fitted to the last bit left out)" if fitted else ""
        reason = (
            f"float64 agrees on the gradient's direction for {value:.1%} of the samples{besides} at the worst tap, "
            f"needed {limit:.0%}"
            if by_precision
            else f"the gradient at the last tap is {value:.2g} per sample, the floor {limit:g}"
        )
        return Finding("reference", at_least(value, limit), reason, value=value, threshold=limit)


def agreement(row: Row) -> float | None:
    """The share of samples on which float64 agrees, at the tap where it is least; None where too few can be asked."""
    shares = row.get("precision_agree")
    return min(shares) if shares and None not in shares and open_share(row) >= OPEN else None


def open_share(row: Row) -> float:
    """The share of samples that are not fitted to the last bit."""
    fitted, samples = row.get("precision_fitted") or 0, row.get("eval_samples")
    return 1.0 - fitted / samples if samples else 1.0


def why_not(row: Row) -> str:
    if not row.get("precision_agree"):
        return "the gradient was not recomputed in float64"
    if open_share(row) < OPEN:
        return (
            f"{row['precision_fitted']} of {row['eval_samples']} samples are fitted to the last bit: too few are left"
        )
    return "at some tap every sample is fitted to the last bit or has a gradient of exactly zero"


def smallest(row: Row) -> float | None:
    """The gradient's median norm at the last tap."""
    norms = row.get("grad_norms")
    return norms[-1] if norms else None
