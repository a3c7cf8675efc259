"""The judge: a pure function from findings to a verdict with reasons. Old findings can be judged again.

    a check fired                                    needs walk-back
    else one not measured, undecided or invalid      inconclusive
    else                                             trustworthy

A check that does not apply is ignored. A label does not affect the verdict. The reasons of a trustworthy verdict are
the checks that passed and those that did not apply. Without a credit signal it covers the network alone. Its first line
says so (``headline``).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from faudit.audit.checks.check import (
    FIRED,
    INVALID,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASSED,
    UNDECIDED,
    Case,
    Check,
    Finding,
)
from faudit.audit.protocol import Protocol
from faudit.formats import html_table, size

TRUSTWORTHY, WALK_BACK, INCONCLUSIVE = "trustworthy", "needs walk-back", "inconclusive"
NETWORK_ONLY = "network only: no credit signal was given"
ALONE = "no credit was given: the verdict covers the network alone"


@dataclass(frozen=True)
class Verdict:
    """A verdict with its reasons and findings."""

    verdict: str
    protocol: str
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    labels: tuple[Finding, ...]
    covers: str = ""  # what alone was judged; empty for the network with its credit

    @property
    def headline(self) -> str:
        """The verdict as a reader first sees it: trust says what it covers."""
        return headline(self.verdict, self.covers)

    def __repr__(self) -> str:
        return f"Verdict({self.verdict!r}, protocol={self.protocol!r})"

    def __str__(self) -> str:
        return "\n".join([f"{self.headline} ({self.protocol})", *(f"    {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, its reasons and the findings."""
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        lines = [
            [one.check, one.status, size(one.value), size(one.threshold), one.reason]
            for one in (*self.findings, *self.labels)
        ]
        table = html_table([["check", "finding", "value", "threshold", "what"], *lines])
        head = f"<b>{html.escape(self.headline)}</b> ({html.escape(self.protocol)})"
        return f"<p>{head}</p><ul>{reasons}</ul>{table}"

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "covers": self.covers or None,
            "protocol": self.protocol,
            "reasons": list(self.reasons),
            "findings": [finding.to_json() for finding in self.findings],
            "labels": [finding.to_json() for finding in self.labels],
        }


def headline(verdict: str, covers: str) -> str:
    """A verdict with what it covers, where that limits it: a walk-back of the network alone is one of the whole."""
    return f"{verdict} ({covers})" if covers and verdict == TRUSTWORTHY else verdict


def of_network(verdict: Verdict) -> Verdict:
    """The verdict on a network whose credit signal was not given."""
    return replace(verdict, covers=NETWORK_ONLY, reasons=(*verdict.reasons, ALONE))


def judge(case: Case, protocol: Protocol, *, replay: bool = True) -> Verdict:
    """Run every check of the protocol and decide; with ``replay``, each check also runs at the earlier rows."""
    earlier = case.earlier if replay else ()
    return decide(
        [replayed(check, case, earlier=earlier) for check in protocol.checks],
        labels=[replayed(check, case, earlier=earlier) for check in protocol.labels],
        protocol=protocol.name,
    )


def replayed(check: Check, case: Case, *, earlier: Sequence[Case]) -> Finding:
    """The finding, with the first epoch of the ``earlier`` cases at which the check would have fired."""
    fired = (one.last["epoch"] for one in earlier if check.find(one).status == FIRED)
    return replace(check.find(case), first_fire=next(fired, None))


def decide(findings: Sequence[Finding], *, labels: Sequence[Finding] = (), protocol: str) -> Verdict:
    """The verdict that the table above gives for these findings."""
    fired = [finding for finding in findings if finding.status == FIRED]
    open_ones = [finding for finding in findings if finding.status in (NOT_MEASURED, UNDECIDED, INVALID)]
    verdict = WALK_BACK if fired else INCONCLUSIVE if open_ones else TRUSTWORTHY
    decisive = fired or open_ones
    reasons = [f"{one.check}: {one.reason}" for one in decisive] if decisive else passed_and_not_applicable(findings)
    return Verdict(verdict, protocol, tuple(reasons), tuple(findings), tuple(labels))


def passed_and_not_applicable(findings: Sequence[Finding]) -> list[str]:
    """The reasons of a trustworthy verdict: the checks that passed, and those that did not apply."""
    passed = [finding.check for finding in findings if finding.status == PASSED]
    others = [f"{finding.check} ({finding.reason})" for finding in findings if finding.status == NOT_APPLICABLE]
    groups = (("passed", passed), ("not applicable", others))
    return [f"{what}: {', '.join(names)}" for what, names in groups if names]
