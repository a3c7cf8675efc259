"""Null separation: is the credit aligned with the gradient by more than chance?

Where credit depends on feedback: Γ of the deep blocks (l ≥ 1) with the feedback the network was trained with, in
standard deviations of Γ under feedback drawn afresh. Where it does not (a rule without feedback; the last block of
block-level FA, taught the exact gradient): Γ of each block against the cosine of random directions. Fires when either
is not above its one-sided 95 % band: then what is called alignment is chance, or points the wrong way.
"""

from __future__ import annotations

from math import erfc, sqrt
from statistics import fmean

from faudit.audit.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED, Case, Check, Finding
from faudit.audit.protocol import Protocol
from faudit.rows import Row

NEEDED = ("gamma_null_std", "gamma_chance")
DEEP = "of the deep blocks"
BAND = 1.96  # standard deviations in the half-width of ``gamma_chance``


class Null(Check):
    """Γ in standard deviations of its null: the least of the deep mean and of the blocks that know no feedback."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.quantile
        if case.is_frozen:
            return Finding("null", NOT_APPLICABLE, "its blocks are taught nothing", threshold=limit)
        if case.null_of is None:
            return Finding("null", NOT_APPLICABLE, "no credit was given", threshold=limit)
        if any(name not in case.last for name in NEEDED):
            return Finding("null", NOT_MEASURED, "Γ was not held against chance", threshold=limit)
        if any(gamma is None for gamma in case.last["gamma"]):
            block = case.last["gamma"].index(None)
            reason = f"no sample has a credit and a gradient at block {block}: Γ is undefined there"
            return Finding("null", UNDECIDED, reason, threshold=limit)
        measured = [(row["epoch"], least(row)) for row in case.rows if all(name in row for name in NEEDED)]
        value, where = measured[-1][1]
        fired = (epoch for epoch, (one, _) in measured if epoch > 0 and one is not None and one < limit)
        if value is None:
            return Finding("null", NOT_APPLICABLE, "no deep block is taught anything", threshold=limit)
        against = case.null_of if where == DEEP else "random directions"
        far = f"{value:+.1f} standard deviations from that of {against}"
        reason = f"Γ {where} is {far} (p = {tail(value):.2g}), needed {limit:+.1f}"
        status = FIRED if value < limit else PASSED
        return Finding("null", status, reason, value=value, threshold=limit, first_fire=next(fired, None))


def least(row: Row) -> tuple[float | None, str]:
    """The smallest score of a row, and of what it is."""
    found = [(score(row), DEEP), *((one, f"of block {block}") for block, one in unfed(row))]
    known = [(value, where) for value, where in found if value is not None]
    return min(known, default=(None, ""))


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


def unfed(row: Row) -> list[tuple[int, float]]:
    """Γ over the spread of chance, of each block whose credit does not depend on feedback."""
    blocks = enumerate(zip(row["gamma"], row["gamma_chance"], row["gamma_null_std"], strict=True))
    return [(block, gamma * BAND / chance) for block, (gamma, chance, std) in blocks if gamma is not None and not std]


def tail(score: float) -> float:
    """The one-sided p-value of a score."""
    return 0.5 * erfc(score / sqrt(2.0))
