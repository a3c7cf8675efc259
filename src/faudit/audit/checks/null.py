"""Null separation: is the credit aligned with the gradient by more than chance?

Where credit depends on feedback: the mean Γ of the deep blocks (l ≥ 1; all taps of a foreign model, which has no
embedding) with the feedback the network was trained with, in standard deviations of the same mean under feedback drawn
afresh. Where it does not (a rule without feedback; the last block of block-level FA, taught the exact gradient): Γ of
each block against the cosine of random directions. Fires when either is not above its one-sided 95 % band: then what is
called alignment is chance. Fires too when one block alone points against its gradient, which a mean would hide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import ClassVar

from faudit.audit.checks.check import (
    FIRED,
    INVALID,
    NOT_APPLICABLE,
    NOT_MEASURED,
    UNDECIDED,
    Case,
    Check,
    Finding,
    at_least,
)
from faudit.audit.checks.controls import gamma_fails
from faudit.store.rows import Row

DEEP = "of the deep blocks"
BAND = 1.96  # standard deviations in the half-width of ``gamma_chance``


@dataclass(frozen=True)
class Null(Check):
    """Γ in standard deviations of its null: the least of the deep mean and of the blocks that know no feedback."""

    name: ClassVar[str] = "null"
    reads: ClassVar[tuple[str, ...]] = ("gamma", "gamma_null_draws", "gamma_null_std", "gamma_chance", "gamma_bp")
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "quantile": (1.0, 1.77, 2.5, 3.0, 4.0),
        "opposed": (2.0, 3.0, 4.0, 6.0),
    }

    # One-sided 5 % where the spread comes from 20 draws: Student's t of 19 degrees of freedom, times √(1 + 1/20).
    quantile: float = 1.77  # fires below so many standard deviations of chance
    opposed: float = 4.0  # fires where one block alone is so many below chance

    def find(self, case: Case) -> Finding:
        row, limit, opposed = case.last, self.quantile, self.opposed
        if early := not_asked(self, case, threshold=limit):
            return early
        fed = fed_blocks(row, first=first_block(case))
        if fed and len(set(means_over(row, fed))) < 2:
            reason = "too few draws of fresh feedback have a Γ at every block: chance is not known"
            return self.finding(UNDECIDED, reason, threshold=limit)
        worst, against = min(((score(row, [block]), block) for block in fed), default=(0.0, 0))
        if worst < -opposed:
            reason = f"Γ of block {against} is {worst:+.1f} standard deviations from that of {case.null_of}"
            reason += f": it points against its gradient, needed {-opposed:+.1f}"
            return self.finding(FIRED, reason, value=worst, threshold=-opposed)
        found = [(score(row, fed), DEEP)] if fed else []
        found += [(value, f"of block {block}") for block, value in unfed(row)]
        if not found:
            return self.finding(NOT_APPLICABLE, "no deep block is taught anything", threshold=limit)
        value, where = min(found)
        chance = case.null_of if where == DEEP else "random directions"
        reason = f"Γ {where} is {value:+.1f} standard deviations from that of {chance}, needed {limit:+.2f}"
        return self.finding(at_least(value, limit), reason, value=value, threshold=limit)


def not_asked(check: Check, case: Case, *, threshold: float) -> Finding | None:
    """The finding on a case whose Γ cannot be held against chance; None if it can."""
    if not case.trains_blocks:
        return check.finding(NOT_APPLICABLE, "its blocks are taught nothing", threshold=threshold)
    if case.null_of is None:
        return check.finding(NOT_APPLICABLE, case.lacks_credit, threshold=threshold)
    row = case.last
    if check.lacks_entries(row):
        return check.finding(NOT_MEASURED, "Γ was not held against chance", threshold=threshold)
    if None in row["gamma"]:
        return check.finding(UNDECIDED, undefined(row), threshold=threshold)
    if (block := gamma_fails(row)) is not None:
        reason = f"at block {block} the exact gradient as credit has no Γ near 1: Γ is invalid"
        return check.finding(INVALID, reason, threshold=threshold)
    return None


def first_block(case: Case) -> int:
    """The first block that counts: not that of a run's embedding, unless it is the only one."""
    return 0 if not case.knows_rule or len(case.last["gamma"]) == 1 else 1


def undefined(row: Row) -> str:
    """Why some block has no Γ."""
    samples = row.get("eval_samples")
    if samples is not None and row.get("fitted") == samples:
        return f"all {samples} samples are fitted beyond the precision of the network: no block has a Γ"
    return f"no sample has a credit and a gradient at block {row['gamma'].index(None)}: Γ is undefined there"


def fed_blocks(row: Row, *, first: int) -> list[int]:
    """The blocks from the first that counts on whose Γ changes when the feedback is drawn afresh."""
    return [block for block, std in enumerate(row["gamma_null_std"]) if block >= first and std]


def score(row: Row, blocks: list[int]) -> float:
    """(mean Γ of some blocks − its mean under fresh feedback) / the spread of that mean over the draws."""
    means = means_over(row, blocks)
    return (fmean(row["gamma"][block] for block in blocks) - fmean(means)) / stdev(means)


def means_over(row: Row, blocks: list[int]) -> list[float]:
    """The mean Γ of some blocks under each draw that has one at all of them.

    Over whole draws, since the blocks of one draw may share feedback (FA's do).
    """
    draws = zip(*(row["gamma_null_draws"][block] for block in blocks), strict=True)
    return [fmean(draw) for draw in draws if None not in draw]


def unfed(row: Row) -> list[tuple[int, float]]:
    """Γ over the spread of chance, of each block whose credit does not depend on feedback."""
    blocks = enumerate(zip(row["gamma"], row["gamma_chance"], row["gamma_null_std"], strict=True))
    return [(block, gamma * BAND / chance) for block, (gamma, chance, std) in blocks if not std]
