"""Reporting strategies: what would have been concluded from a run, had only so much been reported?

``accuracy`` accepts a run that passes the check ``chance``. ``accuracy + Γ`` also wants the mean of Γ over all blocks
above 0.05: the rule that a table of accuracies and cosines invites, written down so that the protocols can be compared
with it. Each check of a protocol alone, and the whole protocol, are the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

from faudit.audit.checks.chance import Chance
from faudit.audit.checks.check import FIRED, PASSED, Case, Check
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.protocol import PROTOCOLS, Protocol

GAMMA = 0.05  # mean cosine above which a table of cosines reads as "aligned"


def accuracy_alone(case: Case) -> str:
    """Is the accuracy above chance?"""
    return {PASSED: TRUSTWORTHY, FIRED: WALK_BACK}.get(Chance().find(case).status, INCONCLUSIVE)


def accuracy_and_gamma(case: Case) -> str:
    """The same, and the mean of Γ over all blocks above 0.05."""
    word = accuracy_alone(case)
    known = [gamma for gamma in case.last.get("gamma") or [] if gamma is not None]
    if word != TRUSTWORTHY:
        return word
    return INCONCLUSIVE if not known else TRUSTWORTHY if fmean(known) > GAMMA else WALK_BACK


def by(protocol: Protocol) -> Callable[[Case], str]:
    """The whole protocol."""
    return lambda case: judge(case, protocol, replay=False).verdict


def strategies(protocol: Protocol) -> dict[str, Callable[[Case], str]]:
    """Every strategy by name: the two of the tables, each check of a protocol alone, and the protocol."""
    alone = {check.name: by(Protocol(check.name, checks=(check,))) for check in protocol.checks}
    return {
        "accuracy": accuracy_alone,
        "accuracy + Γ": accuracy_and_gamma,
        **{f"{name} alone": strategy for name, strategy in alone.items()},
        protocol.name: by(protocol),
    }


def side_by_side() -> dict[str, Callable[[Case], str]]:
    """What the benchmark compares."""
    return {**{name: by(protocol) for name, protocol in PROTOCOLS.items()}, "accuracy + Γ": accuracy_and_gamma}


def over_thresholds(cases: Sequence[Case], protocol: Protocol) -> Iterator[tuple[Check, str, float, list[str]]]:
    """(check, its threshold, a value of it, the verdict on each case) over the grids of a protocol, one at a time."""
    for check in protocol.checks:
        for name, grid in check.grid.items():
            for value in grid:
                varied = protocol.with_check(replace(check, **cast(dict[str, Any], {name: value})))
                yield check, name, value, [judge(case, varied, replay=False).verdict for case in cases]
