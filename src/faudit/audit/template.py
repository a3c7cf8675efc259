"""A verdict as a paper's appendix wants it: what was asked, what was measured, against which threshold.  (no torch)"""

from __future__ import annotations

from faudit.audit.audit import Audited, worst
from faudit.audit.check import Finding


def page(audited: list[Audited]) -> str:
    """Markdown: the verdict on the runs together, then each run with its findings."""
    protocol = audited[0].verdict.protocol
    out = [f"# Audit by the protocol {protocol}", ""]
    if len(audited) > 1:
        out += [f"{len(audited)} runs together: **{worst([one.verdict for one in audited])}**.", ""]
    for one in audited:
        out += [f"## {one.run.name}", "", f"**{one.verdict.verdict}**", ""]
        out += [*(f"- {reason}" for reason in one.verdict.reasons), ""]
        out += ["| check | finding | value | threshold | first fired at epoch | what |", "|---|---|---|---|---|---|"]
        out += [line(finding) for finding in one.verdict.findings]
        out += [line(finding, label=True) for finding in one.verdict.labels]
        out += [""]
    return "\n".join(out)


def line(finding: Finding, *, label: bool = False) -> str:
    first = "–" if finding.first_fire is None else str(finding.first_fire)
    name = f"{finding.check} (label)" if label else finding.check
    cells = [name, finding.status, number(finding.value), number(finding.threshold), first, finding.reason]
    return "| " + " | ".join(cells) + " |"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
