"""Null separation: is the trained network aligned with *this* feedback, more than with any other?

Γ of the deep blocks (l ≥ 1) with the feedback it was trained with, against the distribution under feedback drawn
afresh. Blocks whose Γ does not depend on the feedback (the last block of block-level FA, taught the exact gradient) are
left out. Fires when Γ is not above the null's one-sided 95 % band: then what is called alignment is chance.
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean

from faudit.audit.check import FIRED, FRESH, NOT_APPLICABLE, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.audit.protocol import Protocol
from faudit.rows import Row


class Null(Check):
    """Deep Γ in standard deviations of its null."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.quantile
        if case.is_frozen:
            return Finding("null", NOT_APPLICABLE, "its blocks are taught nothing", threshold=limit)
        if case.null_of is None:
            return Finding("null", NOT_APPLICABLE, "no credit was given", threshold=limit)
        if "gamma_null_std" not in case.last:
            return Finding("null", NOT_MEASURED, "no fresh feedback was drawn", threshold=limit)
        scores = [(row["epoch"], score(row)) for row in case.rows if "gamma_null_std" in row]
        value = scores[-1][1]
        first = next((epoch for epoch, one in scores if one is not None and epoch > 0 and one < limit), None)
        if value is None and case.null_of != FRESH:
            return Finding("null", NOT_MEASURED, "Γ has no value at any deep tap", threshold=limit)
        if value is None:
            reason = "no deep block whose credit depends on feedback"
            return Finding("null", NOT_APPLICABLE, reason, threshold=limit, first_fire=first)
        reason = f"deep Γ is {value:+.1f} standard deviations from that of {case.null_of}, needed {limit:+.1f}"
        status = FIRED if value < limit else PASSED
        return Finding("null", status, reason, value=value, threshold=limit, first_fire=first)


def score(row: Row) -> float | None:
    """(deep Γ − its mean under fresh feedback) / the spread of that mean, over the blocks where feedback plays a part.

    The matrices of a draw are independent of one another, so the variance of a mean over k blocks is Σ var_l / k².
    """
    blocks = [
        (gamma, mean, std)
        for gamma, mean, std in list(zip(row["gamma"], row["gamma_null_mean"], row["gamma_null_std"], strict=True))[1:]
        if gamma is not None and mean is not None and std
    ]
    if not blocks:
        return None
    gammas, means, stds = zip(*blocks, strict=True)
    return (fmean(gammas) - fmean(means)) / (sqrt(sum(std**2 for std in stds)) / len(stds))
