"""Reporting strategies: what would have been concluded from a run, had only so much been reported?  (no torch)

``accuracy`` accepts a run whose accuracy is above chance, by the lower end of a 95 % interval. ``accuracy + Γ`` also
wants the mean of Γ over all blocks above 0.05: the rule that a table of accuracies and cosines invites, written down
so that it can be held against. Each check of a protocol alone, and the whole protocol, are the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

from faudit.audit.checks.check import Case
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.protocol import PROTOCOLS, Protocol
from faudit.stats import wilson_interval

GAMMA = 0.05  # mean cosine above which a table of cosines reads as "aligned"


def accuracy_alone(case: Case) -> str:
    """Above chance by the lower end of Wilson's 95 % interval?"""
    if case.accuracy is None or not case.classes:
        return INCONCLUSIVE
    return TRUSTWORTHY if wilson_interval(case.accuracy, case.samples)[0] > 1.0 / case.classes else WALK_BACK


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
    alone = {name: by(replace(protocol, name=name, checks=(name,), labels=())) for name in protocol.checks}
    return {
        "accuracy": accuracy_alone,
        "accuracy + Γ": accuracy_and_gamma,
        **{f"{name} alone": strategy for name, strategy in alone.items()},
        protocol.name: by(protocol),
    }


def side_by_side() -> dict[str, Callable[[Case], str]]:
    """What the benchmark compares."""
    return {**{name: by(protocol) for name, protocol in PROTOCOLS.items()}, "accuracy + Γ": accuracy_and_gamma}


# The thresholds that a protocol may have, each over the grid on which verdicts are asked again.
GRIDS: dict[str, tuple[float, ...]] = {
    "growth": (5, 12, 25, 50, 100, 200, 400, 693, 1000),
    "agreement": (0.5, 0.8, 0.9, 0.95, 0.99, 0.999),
    "rank": (1.1, 1.25, 1.5, 2.0, 3.0),
    "turn": (1e-4, 1e-3, 1e-2, 3e-2, 0.1),
    "floor": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
    "errors_removed": (0.0, 0.01, 0.03, 0.05, 0.1, 0.2),
    "points": (0.0, 0.01, 0.02, 0.03, 0.05),
    "quantile": (1.0, 1.77, 2.5, 3.0, 4.0),
    "opposed": (2.0, 3.0, 4.0, 6.0),
}


def over_thresholds(cases: Sequence[Case], protocol: Protocol) -> Iterator[tuple[str, float, list[str]]]:
    """(threshold, value, verdict on each case) over the grid of each threshold that the protocol has, one at a time."""
    for name, grid in GRIDS.items():
        if getattr(protocol, name) is not None:
            for value in grid:
                varied = replace(protocol, **cast(dict[str, Any], {name: value}))
                yield name, value, [judge(case, varied, replay=False).verdict for case in cases]
