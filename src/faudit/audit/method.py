"""The verdict on a method over several seeds, and each check's value with an interval over the seeds.

The runs of a method share every setting except the seed. A method needs walk-back if one of its seeds does, because a
method that fails with one seed in three cannot be trusted with the fourth. It is trustworthy if all seeds are. The
interval is Student's 95 % interval over the seeds, cut to the values that are possible. One seed has no interval, and
neither have seeds whose interval would cover every possible value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from faudit.audit.checks.check import FIRED, Finding
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, Verdict, headline
from faudit.config import RunConfig, identity
from faudit.stats import student_interval


@dataclass(frozen=True)
class Across:
    """The result of one check over the seeds."""

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
    """A method with its seeds, verdict and checks."""

    name: str
    seeds: tuple[int, ...]
    verdict: str
    checks: tuple[Across, ...]
    covers: str = ""  # what alone was judged, at some seed

    @property
    def headline(self) -> str:
        """The verdict as a reader first sees it."""
        return headline(self.verdict, self.covers)

    def to_json(self) -> dict[str, Any]:
        checks = [check.to_json() for check in self.checks]
        told = {"verdict": self.verdict, "covers": self.covers or None}
        return {"method": self.name, "seeds": list(self.seeds), **told, "checks": checks}


def methods(judged: Sequence[tuple[RunConfig, Verdict]]) -> list[Method]:
    """Group runs into methods, in the given order; of several runs with one seed, the first counts."""
    groups: dict[tuple[Any, ...], dict[int, tuple[RunConfig, Verdict]]] = {}
    for config, verdict in judged:
        groups.setdefault((*identity(config), config.epochs), {}).setdefault(config.seed, (config, verdict))
    return [method(list(group.values())) for group in groups.values()]


def method(group: Sequence[tuple[RunConfig, Verdict]]) -> Method:
    """The method of a group of runs."""
    config, first = group[0]
    verdicts = [verdict for _, verdict in group]
    checks = [across([verdict.findings[place] for verdict in verdicts]) for place in range(len(first.findings))]
    seeds, covers = tuple(one.seed for one, _ in group), next((one.covers for one in verdicts if one.covers), "")
    return Method(title(config), seeds, worst(verdicts), tuple(checks), covers)


def across(findings: Sequence[Finding]) -> Across:
    """Summarise the findings of one check over the seeds."""
    known = [finding.value for finding in findings if finding.value is not None and isfinite(finding.value)]
    fired = sum(finding.status == FIRED for finding in findings)
    low, high = student_interval(known, findings[0].within) or (None, None)
    return Across(findings[0].check, fired, fmean(known) if known else None, low, high, findings[0].threshold)


def worst(verdicts: Sequence[Verdict]) -> str:
    """The worst verdict: walk-back if any seed needs it, trustworthy only if all are."""
    words = {verdict.verdict for verdict in verdicts}
    return next(word for word in (WALK_BACK, INCONCLUSIVE, TRUSTWORTHY) if word in words)


def title(config: RunConfig) -> str:
    """A short name for a method."""
    return f"{config.label(on=config.net)}, {config.data}, {config.epochs} epochs"
