"""Several seeds of one method: the verdict on it, and each check's value with an interval over the seeds.

A method is what its runs share: every setting but the seed. It needs walk-back when one of its seeds does, because a
method that breaks with one seed in three is not to be trusted with the fourth; it is trustworthy when all are. The
interval is Student's, 95 %, over the seeds; with one seed there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from faudit.audit.checks.check import FIRED, Finding
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, Verdict
from faudit.config import RunConfig, identity
from faudit.stats import student_interval


@dataclass(frozen=True)
class Across:
    """One check over the seeds."""

    check: str
    fired: int
    mean: float | None
    low: float | None
    high: float | None
    threshold: float | None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Method:
    """A method with its seeds."""

    name: str
    seeds: tuple[int, ...]
    verdict: str
    checks: tuple[Across, ...]

    def to_json(self) -> dict[str, Any]:
        checks = [check.to_json() for check in self.checks]
        return {"method": self.name, "seeds": list(self.seeds), "verdict": self.verdict, "checks": checks}


def methods(judged: Sequence[tuple[RunConfig, Verdict]]) -> list[Method]:
    """The runs grouped by everything but their seed, in the order they came; of one seed, the first speaks for it."""
    groups: dict[tuple[Any, ...], dict[int, tuple[RunConfig, Verdict]]] = {}
    for config, verdict in judged:
        groups.setdefault((*identity(config), config.epochs), {}).setdefault(config.seed, (config, verdict))
    return [method(list(group.values())) for group in groups.values()]


def method(group: Sequence[tuple[RunConfig, Verdict]]) -> Method:
    """The verdict on one."""
    config, first = group[0]
    verdicts = [verdict for _, verdict in group]
    checks = [across([verdict.findings[place] for verdict in verdicts]) for place in range(len(first.findings))]
    return Method(title(config), tuple(one.seed for one, _ in group), worst(verdicts), tuple(checks))


def across(findings: Sequence[Finding]) -> Across:
    """One check's findings over the seeds."""
    known = [finding.value for finding in findings if finding.value is not None and isfinite(finding.value)]
    fired = sum(finding.status == FIRED for finding in findings)
    low, high = student_interval(known) or (None, None)
    return Across(findings[0].check, fired, fmean(known) if known else None, low, high, findings[0].threshold)


def worst(verdicts: Sequence[Verdict]) -> str:
    """One that needs walk-back is enough; all must be trustworthy."""
    words = {verdict.verdict for verdict in verdicts}
    return next(word for word in (WALK_BACK, INCONCLUSIVE, TRUSTWORTHY) if word in words)


def title(config: RunConfig) -> str:
    """A method in a few words."""
    return f"{config.label(on=config.net)}, {config.data}, {config.epochs} epochs"
