"""The judge: a pure function from findings to a verdict with reasons. Old findings can be judged again.

    a check fired                                    needs walk-back
    else one not measured, undecided or invalid      inconclusive
    else                                             trustworthy

A check that does not apply is ignored. A label does not affect the verdict. The reasons of a trustworthy verdict are
the checks that passed and those that did not apply.
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


@dataclass(frozen=True)
class Verdict:
    """A verdict with its reasons and findings."""

    verdict: str
    protocol: str
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    labels: tuple[Finding, ...]

    def __repr__(self) -> str:
        return f"Verdict({self.verdict!r}, protocol={self.protocol!r})"

    def __str__(self) -> str:
        return "\n".join([f"{self.verdict} ({self.protocol})", *(f"    {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, its reasons and the findings."""
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        lines = [
            [one.check, one.status, size(one.value), size(one.threshold), one.reason]
            for one in (*self.findings, *self.labels)
        ]
        table = html_table([["check", "finding", "value", "threshold", "what"], *lines])
        head = f"<b>{html.escape(self.verdict)}</b> ({html.escape(self.protocol)})"
        return f"<p>{head}</p><ul>{reasons}</ul>{table}"

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "protocol": self.protocol,
            "reasons": list(self.reasons),
            "findings": [finding.to_json() for finding in self.findings],
            "labels": [finding.to_json() for finding in self.labels],
        }


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
