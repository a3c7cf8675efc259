"""Reporting strategies: the conclusion that a reader would draw from part of the measurements.

``accuracy`` accepts a run that passes the check ``chance``. ``accuracy + Γ`` also needs a mean of Γ over all blocks
above 0.05. Readers of a table of accuracies and cosines tend to apply this rule, so the protocols are compared with it.
The other strategies are each check of a protocol alone, and the whole protocol.
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
    """Accept a run whose accuracy is above chance."""
    return {PASSED: TRUSTWORTHY, FIRED: WALK_BACK}.get(Chance().find(case).status, INCONCLUSIVE)


def accuracy_and_gamma(case: Case) -> str:
    """Accept a run whose accuracy is above chance and whose mean of Γ over all blocks is above 0.05."""
    word = accuracy_alone(case)
    known = [gamma for gamma in case.last.get("gamma") or [] if gamma is not None]
    if word != TRUSTWORTHY:
        return word
    return INCONCLUSIVE if not known else TRUSTWORTHY if fmean(known) > GAMMA else WALK_BACK


def by(protocol: Protocol) -> Callable[[Case], str]:
    """The verdict of a whole protocol."""
    return lambda case: judge(case, protocol, replay=False).verdict


def strategies(protocol: Protocol) -> dict[str, Callable[[Case], str]]:
    """Every strategy by name: accuracy, accuracy + Γ, each check of a protocol alone, and the protocol."""
    alone = {check.name: by(Protocol(check.name, checks=(check,))) for check in protocol.checks}
    return {
        "accuracy": accuracy_alone,
        "accuracy + Γ": accuracy_and_gamma,
        **{f"{name} alone": strategy for name, strategy in alone.items()},
        protocol.name: by(protocol),
    }


def side_by_side() -> dict[str, Callable[[Case], str]]:
    """The strategies that the benchmark compares."""
    return {**{name: by(protocol) for name, protocol in PROTOCOLS.items()}, "accuracy + Γ": accuracy_and_gamma}


def over_thresholds(cases: Sequence[Case], protocol: Protocol) -> Iterator[tuple[Check, str, float, list[str]]]:
    """Vary one threshold at a time over its grid; yields (check, threshold, value, the verdict on each case)."""
    for check in protocol.checks:
        for name, grid in check.grid.items():
            for value in grid:
                varied = protocol.with_check(replace(check, **cast(dict[str, Any], {name: value})))
                yield check, name, value, [judge(case, varied, replay=False).verdict for case in cases]
