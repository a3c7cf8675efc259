"""The reporting template: what a paper should print of each method besides accuracy and Γ, filled in as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from faudit import __version__
from faudit.audit.page import thresholds
from faudit.audit.protocol import Protocol
from faudit.formats import least_and_most
from faudit.report.runs import number

MISSING = "not measured"


def template(methods: Sequence[Mapping[str, Any]], runs: Mapping[str, Mapping[str, Any]], protocol: Protocol) -> str:
    """Markdown: the protocol, then one list for each method."""
    out = [f"Audited with faudit {__version__}, protocol {protocol.name}. {thresholds(protocol)}", ""]
    for method in methods:
        first = runs[method["runs"][0]]
        environment = first["environment"]
        machine = ", ".join(str(environment[name]) for name in ("cpu", "system") if environment.get(name))
        facts = {
            "Verdict": f"{method['headline']}. {method['sentence']}",
            "Seeds": f"{', '.join(map(str, method['seeds']))} (n = {len(method['seeds'])})",
            "Accuracy on the full test set": spread(method["accuracy"], ".4f"),
            "Largest growth of one block": growth(method["growth"]),
            "Γ of the deep blocks": spread(method["gamma"], "+.3f"),
            "Γ of the deep blocks under fresh feedback": null(method["null"]),
            **{f"Check {one['check']}": check(one, len(method["seeds"])) for one in method["checks"]},
            "Optimizer": optimizer(first["config"]),
            "Data fingerprint (SHA-256)": environment.get("data_sha256") or MISSING,
            "Versions": ", ".join(
                f"{name} {environment[name]}" for name in ("torch", "python") if environment.get(name)
            ),
            "Machine": machine or MISSING,
        }
        out += [f"### {method['name']}", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    return "\n".join(out)


def spread(found: Mapping[str, Any], form: str) -> str:
    """A mean with its standard deviation over the seeds."""
    if found["mean"] is None:
        return MISSING
    one = "" if found["std"] is None else f" ± {found['std']:{form.lstrip('+')}} (s.d.)"
    return f"{found['mean']:{form}}{one}, n = {found['n']}"


def growth(values: Sequence[Any]) -> str:
    known = [found for value in values if (found := number(value)) is not None]
    lost = len(values) - len(known)
    told = least_and_most(known, "×") if known else ""
    return ", ".join(filter(None, [told, f"overflowed in {lost}" if lost else ""])) or MISSING


def null(found: Mapping[str, Any]) -> str:
    if found["mean"] is None:
        return "the rule has no feedback to draw" if found["none"] else MISSING
    one = "" if found["std"] is None else f" ± {found['std']:.3f} (s.d. of a draw)"
    return f"{found['mean']:+.3f}{one}"


def check(one: Mapping[str, Any], seeds: int) -> str:
    """The result of a check over the seeds."""
    if one["open"]:
        return str(one["open"])
    if one["mean"] is None:
        return f"no number; fired in {one['fired']} of {seeds}"
    interval = "" if one["low"] is None else f" [{float(one['low']):.3g}, {float(one['high']):.3g}]"
    limit = "" if one["threshold"] is None else f", threshold {float(one['threshold']):.3g}"
    return f"{float(one['mean']):.3g}{interval}{limit}; fired in {one['fired']} of {seeds}"


def optimizer(config: Mapping[str, Any]) -> str:
    names = ("lr", "weight-decay", "batch-size", "schedule")
    return ", ".join([str(config.get("optimizer")), *(f"{name} {config[name]}" for name in names if name in config)])
