"""Verdicts as a Markdown page for an appendix: checks, measurements and thresholds."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from faudit.audit.audit import Audited
from faudit.audit.checks.check import Finding
from faudit.audit.method import Method, methods
from faudit.audit.protocol import Protocol
from faudit.audit.utility import markdown, sensitivity_table, utility_table
from faudit.formats import latex, signed, size
from faudit.store.rows import Row


def page(
    audited: list[Audited],
    asked: Protocol,
    *,
    utility_of: dict[str, Any] | None,
    sensitivity_of: dict[str, Any] | None,
) -> str:
    """Markdown: the protocol with its thresholds, each method over its seeds, each run with its findings."""
    out = [f"# Audit by the protocol {asked.name}", "", thresholds(asked), ""]
    for method in methods([(one.config, one.verdict) for one in audited]):
        if len(method.seeds) > 1:
            out += [f"## {method.name}", "", f"**{method.verdict}** over seeds {', '.join(map(str, method.seeds))}", ""]
            out += [*markdown(method_table(method)), ""]
    for title, table in (
        ("What each reporting strategy would have concluded", utility_table(utility_of) if utility_of else None),
        ("Had a threshold stood elsewhere", sensitivity_table(sensitivity_of) if sensitivity_of else None),
    ):
        if table:
            out += [f"## {title}", "", *markdown(table), ""]
    for one in audited:
        out += [f"## {one.run.name}", "", f"**{one.verdict.verdict}**", ""]
        out += [*(f"- {reason}" for reason in one.verdict.reasons), ""]
        out += ["| check | finding | value | threshold | first fired at epoch | what |", "|---|---|---|---|---|---|"]
        out += [line(finding) for finding in one.verdict.findings]
        out += [line(finding, label=True) for finding in one.verdict.labels]
        out += ["", *measured(one.case.last)]
    return "\n".join(out)


SIGNALS = {
    "Γ": "gamma", "Γ, fresh feedback": "gamma_null_mean", "s.d. of a draw": "gamma_null_std", "p": "gamma_null_p",
    "ρ": "rho", "ρ of the paper": "rho_study", "ρ, fresh feedback": "rho_null_mean", "ρ of BP": "rho_bp",
    "ρ of noise": "rho_random", "Γ of BP": "gamma_bp",
}  # fmt: skip


UNSIGNED = ("s.d. of a draw", "p")  # shown without a sign and without a mean over blocks


def measured(row: Row) -> list[str]:
    """The signal's alignment per block, by faudit's and by the paper's definition, with its null and its controls."""
    there = {title: row[name] for title, name in SIGNALS.items() if row.get(name)}
    if not there:
        return []
    blocks = range(max(map(len, there.values())))
    lines = [
        [str(block), *(signed(values[block]).lstrip("+" * (title in UNSIGNED)) for title, values in there.items())]
        for block in blocks
    ]
    deep = ["mean of 1 …", *("–" if title in UNSIGNED else signed(mean(values[1:])) for title, values in there.items())]
    return [*markdown([["block", *there], *lines, deep]), ""]


def mean(values: list[float | None]) -> float | None:
    """The mean, if every value is known."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def thresholds(asked: Protocol) -> str:
    """The checks and thresholds of a protocol, in a sentence."""
    checks, labels = (", ".join(check.name for check in some) for some in (asked.checks, asked.labels))
    stand = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in asked.thresholds)
    return f"Checks: {checks}; as a label: {labels or 'none'}. Thresholds: {stand or 'none'}."


def method_table(method: Method) -> list[list[str]]:
    """A table of the checks of a method over its seeds."""
    lines = [
        [
            check.check,
            f"{check.fired} of {len(method.seeds)}",
            size(check.mean),
            "–" if check.low is None else f"{size(check.low)} to {size(check.high)}",
            size(check.threshold),
        ]
        for check in method.checks
    ]
    return [["check", "fired", "mean", "95 % interval over seeds", "threshold"], *lines]


def method_latex(method: Method) -> str:
    """The table of a method in LaTeX."""
    seeds = ", ".join(map(str, method.seeds))
    return latex(method_table(method), caption=f"{method.name}: {method.verdict} over seeds {seeds}")


def line(finding: Finding, *, label: bool = False) -> str:
    first = "–" if finding.first_fire is None else str(finding.first_fire)
    name = f"{finding.check} (label)" if label else finding.check
    cells = [name, finding.status, size(finding.value), size(finding.threshold), first, finding.reason]
    return "| " + " | ".join(cells) + " |"
