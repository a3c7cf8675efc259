"""The judge: a pure table from findings to a verdict, with reasons. Old findings can be judged again.  (no torch)

    a check fired                                    needs walk-back
    else one not measured, undecided or invalid      inconclusive
    else                                             trustworthy

A check that does not apply takes no part; a label never decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faudit.audit import CHECKS
from faudit.audit.check import FIRED, INVALID, NOT_MEASURED, UNDECIDED, Case, Finding
from faudit.audit.protocol import Protocol

TRUSTWORTHY, WALK_BACK, INCONCLUSIVE = "trustworthy", "needs walk-back", "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """A judgement with the findings it rests on."""

    verdict: str
    protocol: str
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    labels: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "protocol": self.protocol,
            "reasons": list(self.reasons),
            "findings": [finding.to_json() for finding in self.findings],
            "labels": [finding.to_json() for finding in self.labels],
        }


def judge(case: Case, protocol: Protocol) -> Verdict:
    """Ask every check of the protocol, and decide."""
    return decide(
        [CHECKS[name]().find(case, protocol) for name in protocol.checks],
        labels=[CHECKS[name]().find(case, protocol) for name in protocol.labels],
        protocol=protocol.name,
    )


def decide(findings: Sequence[Finding], *, labels: Sequence[Finding] = (), protocol: str) -> Verdict:
    """The table."""
    fired = [finding for finding in findings if finding.status == FIRED]
    open_ones = [finding for finding in findings if finding.status in (NOT_MEASURED, UNDECIDED, INVALID)]
    verdict = WALK_BACK if fired else INCONCLUSIVE if open_ones else TRUSTWORTHY
    told = fired or open_ones
    reasons = tuple(f"{finding.check}: {finding.reason}" for finding in told) or ("every check that applies passed",)
    return Verdict(verdict, protocol, reasons, tuple(findings), tuple(labels))
