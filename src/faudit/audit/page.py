"""Verdicts as a page for an appendix: definitions, thresholds, findings, and what the numbers were made with.

The page is written as Markdown or LaTeX (``sheet.py``) and says what a reader needs to check a verdict: versions,
commit, settings, the fingerprint of the data and the hash of the weights.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import fmean
from typing import Any

from faudit.audit.audit import Audited
from faudit.audit.checks.check import Check, Finding
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.audit.judge import Verdict as Judged
from faudit.audit.method import Across, Method, methods
from faudit.audit.protocol import Protocol
from faudit.audit.sheet import Grid, Heading, Part, Points, Text, Verdict, as_markdown
from faudit.audit.utility import KEY, sensitivity_table, utility_table
from faudit.config import key
from faudit.formats import signed, size
from faudit.store.environment import environment
from faudit.store.rows import Row

FINDINGS = ("check", "finding", "value", "threshold", "first fired at epoch", "what")
WIDE = {"check": 0.12, "finding": 0.12, FINDINGS[4]: 0.09, "what": 0.38}  # shares of the line in LaTeX
MADE_WITH = {"faudit": "faudit", "commit": "commit", "torch": "torch", "numpy": "numpy", "python": "Python",
             "system": "system", "cpu": "processor", "cores": "cores"}  # fmt: skip
MEANINGS = (
    f"{TRUSTWORTHY.capitalize()}: every check that applies passed. {WALK_BACK.capitalize()}: at least one check fired, "
    f"so conclusions that rest on the run should be taken back. {INCONCLUSIVE.capitalize()}: no check fired, but at "
    "least one was not measured, is undecided, or is invalid because a control of the measurement failed."
)


def page(
    audited: list[Audited],
    asked: Protocol,
    *,
    utility_of: dict[str, Any] | None,
    sensitivity_of: dict[str, Any] | None,
) -> str:
    """The page as Markdown, with the settings that differ from their defaults."""
    return as_markdown(appendix(audited, asked, utility_of=utility_of, sensitivity_of=sensitivity_of))


def appendix(
    audited: Sequence[Audited],
    asked: Protocol,
    *,
    utility_of: dict[str, Any] | None = None,
    sensitivity_of: dict[str, Any] | None = None,
    all_settings: bool = False,
) -> list[Part]:
    """The parts of the page: the protocol, each method over its seeds, each run with its findings, and the versions."""
    parts = [*protocol_parts(f"Audit by the protocol {asked.name}", asked)]
    for method in methods([(one.config, one.verdict) for one in audited]):
        if len(method.seeds) > 1:
            head, *rows = method_table(method)
            parts += [
                Heading(method.name),
                Verdict(method.headline, f" over seeds {', '.join(map(str, method.seeds))}"),
                Grid(head, rows, f"The checks of {method.name} over its seeds."),
            ]
    if utility_of:
        title, (head, *rows) = "What each reporting strategy would have concluded", utility_table(utility_of)
        parts += [Heading(title), Text(f"{KEY}."), Grid(head, rows, f"{title}.", keyed=True)]
    if sensitivity_of:
        title, (head, *rows) = "Had a threshold stood elsewhere", sensitivity_table(sensitivity_of)
        parts += [Heading(title), Grid(head, rows, f"{title}.", wide={head[-1]: 0.6})]
    for one in audited:
        parts += [Heading(one.run.name), *findings_of(one.verdict, about=one.run.name)]
        parts += measured(one.case.last, about=one.run.name)
        parts += [Heading("What it was made with", 3), Points(made_with(one, all_settings=all_settings))]
    return [*parts, *versions()]


def model_appendix(
    title: str,
    asked: Protocol,
    *,
    taps: Sequence[Sequence[str]],
    samples: int,
    verdict: Judged,
    facts: Mapping[str, str],
) -> list[Part]:
    """The parts of the page of a foreign model; ``taps`` is its table, and ``facts`` say what was audited."""
    head, *rows = taps
    return [
        *protocol_parts(f"Audit of {title} by the protocol {asked.name}", asked),
        Heading("Findings"),
        Text(f"On {samples} samples:"),
        *findings_of(verdict, about=title),
        Grid(head, rows, f"The taps of {title}."),
        *([Points([f"{name}: {value}" for name, value in facts.items()])] if facts else []),
        *versions(),
    ]


def protocol_parts(title: str, asked: Protocol) -> list[Part]:
    """The protocol: its checks and thresholds, what the verdicts mean, and the definition of each check."""
    checks = [(check, check.name) for check in asked.checks] + [(one, f"{one.name} (label)") for one in asked.labels]
    rows = [[name, question(check), value_of(check), thresholds_of(check)] for check, name in checks]
    header = ("check", "question", "number", "thresholds")
    return [
        Heading(title, 1),
        Text(thresholds(asked)),
        Text(MEANINGS),
        Grid(header, rows, f"The checks of the protocol {asked.name}.",
             wide={"question": 0.31, "number": 0.29, "thresholds": 0.16}),
    ]  # fmt: skip


def question(check: Check) -> str:
    """What a check asks: the first sentence of its file."""
    text = first_sentence(sys.modules[type(check).__module__].__doc__).split(": ", 1)[-1]  # without its name
    return text[:1].upper() + text[1:]


def value_of(check: Check) -> str:
    """The number that a check compares: the first sentence of its class. Python writes the docstring of a bare one."""
    text = type(check).__doc__ or ""
    return first_sentence("" if text.startswith(f"{type(check).__name__}(") else text)


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring; a dash if there is none."""
    found = re.match(r"(.+?[.?!])(?:\s|$)", " ".join((text or "").replace("``", "").split()))
    return found[1] if found else "–"


def thresholds_of(check: Check) -> str:
    """The thresholds of a check with their names."""
    stand = [f"{entry.name.replace('_', ' ')} {getattr(check, entry.name):g}" for entry in fields(check)]
    return ", ".join(stand) or "–"


def findings_of(verdict: Judged, *, about: str) -> list[Part]:
    """A verdict with its reasons and a table of all findings."""
    rows = [cells(finding) for finding in verdict.findings]
    rows += [cells(finding, label=True) for finding in verdict.labels]
    table = Grid(FINDINGS, rows, f"The findings on {about}.", wide=WIDE)
    return [Verdict(verdict.headline), Points(verdict.reasons), table]


def made_with(one: Audited, *, all_settings: bool) -> list[str]:
    """What a run was made with: settings, data, weights, versions and control."""
    config, before = one.config, one.run.environment()
    outcome = one.run.outcome() or {}
    settings = config.settings | config.stray if all_settings else config.changed
    named = {"net": config.net, "rule": config.rule, "data": config.data, "epochs": config.epochs, "seed": config.seed}
    told = ", ".join(f"{key(name)} = {written(value)}" for name, value in (named | settings).items())
    controls = ", ".join(f"{control.run} (accuracy {control.accuracy:.4f})" for control in one.case.frozen)
    return [
        f"{'settings' if all_settings else 'settings (the others are at their defaults)'}: {told}",
        f"data: {config.data}, SHA-256 {before.get('data_sha256') or 'not known'}",
        f"test set: {one.case.samples} samples, {one.case.classes or 'no'} classes",
        f"weights: SHA-256 {outcome.get('weights_sha256') or 'not known'}",
        f"control: {controls or 'none'}",
        f"trained with: {', '.join(made_by(before)) or 'not known'}",
    ]


def written(value: Any) -> str:
    """The value of a setting as in a file."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def made_by(facts: Mapping[str, Any]) -> list[str]:
    """The versions and the machine of an environment, in words."""
    return [f"{said} {facts[name]}" for name, said in MADE_WITH.items() if facts.get(name) is not None]


def versions() -> list[Part]:
    """What this audit was made with."""
    rows = [[said, str(environment()[name])] for name, said in MADE_WITH.items() if environment()[name] is not None]
    return [Heading("What this audit was made with"), Grid(("what", "version"), rows, "The software of the audit.")]


SIGNALS = {
    "Γ": "gamma", "Γ, fresh feedback": "gamma_null_mean", "s.d. of a draw": "gamma_null_std", "p": "gamma_null_p",
    "ρ": "rho", "ρ of the paper": "rho_study", "ρ, fresh feedback": "rho_null_mean", "ρ of BP": "rho_bp",
    "ρ of noise": "rho_random", "Γ of BP": "gamma_bp",
}  # fmt: skip


UNSIGNED = ("s.d. of a draw", "p")  # shown without a sign and without a mean over blocks


def measured(row: Row, *, about: str) -> list[Part]:
    """The signal's alignment per block, by faudit's and by the paper's definition, with its null and its controls."""
    there = {title: row[name] for title, name in SIGNALS.items() if row.get(name)}
    if not there:
        return []
    blocks = range(max(map(len, there.values())))
    rows = [
        [
            title,
            *(signed(values[block]).lstrip("+" * (title in UNSIGNED)) for block in blocks),
            "–" if title in UNSIGNED else signed(mean(values[1:])),
        ]
        for title, values in there.items()
    ]
    return [Grid(["block", *map(str, blocks), "mean of 1 …"], rows, f"The credit signal of {about}, block by block.")]


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
            over_seeds(check),
            size(check.threshold),
        ]
        for check in method.checks
    ]
    return [["check", "fired", "mean", "95 % interval over seeds", "threshold"], *lines]


def over_seeds(check: Across) -> str:
    """The interval of a check over the seeds of a method."""
    if check.low is not None:
        return f"{size(check.low)} to {size(check.high)}"
    return "–" if check.mean is None else "too few seeds for an interval"


def cells(finding: Finding, *, label: bool = False) -> list[str]:
    """A finding as a line of a table."""
    first = "–" if finding.first_fire is None else str(finding.first_fire)
    name = f"{finding.check} (label)" if label else finding.check
    return [name, finding.status, size(finding.value), size(finding.threshold), first, finding.reason]


def line(finding: Finding, *, label: bool = False) -> str:
    """A finding as a line of a Markdown table."""
    return "| " + " | ".join(cells(finding, label=label)) + " |"
