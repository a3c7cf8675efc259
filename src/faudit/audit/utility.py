"""Decision utility and threshold sensitivity on audited runs: two tables, as text, Markdown and JSON.

The first asks what each reporting strategy would have concluded of each run; the second, whether the verdicts would
have been others had a threshold stood elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faudit.audit.audit import Audited
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.audit.protocol import Protocol
from faudit.audit.strategies import over_thresholds, strategies

SHORT = {TRUSTWORTHY: "✓", WALK_BACK: "✗", INCONCLUSIVE: "?"}
KEY = f"✓ {TRUSTWORTHY}, ✗ {WALK_BACK}, ? {INCONCLUSIVE}"


def utility(audited: Sequence[Audited], protocol: Protocol) -> dict[str, Any]:
    """The verdict of every strategy on every run."""
    named = strategies(protocol)
    return {one.run.name: {name: strategy(one.case) for name, strategy in named.items()} for one in audited}


def sensitivity(audited: Sequence[Audited], protocol: Protocol) -> dict[str, Any]:
    """Per threshold: where it stands, and at each place of its grid how many runs have another verdict, and which."""
    stand = [one.verdict.verdict for one in audited]
    out: dict[str, Any] = {}
    for check, name, value, verdicts in over_thresholds([one.case for one in audited], protocol):
        moved = {
            one.run.name: verdict
            for one, verdict, before in zip(audited, verdicts, stand, strict=True)
            if verdict != before
        }
        entry = out.setdefault(name, {"stands": getattr(check, name), "runs": len(audited), "grid": []})
        entry["grid"].append({"value": value, "changed": moved})
    return out


def utility_table(result: dict[str, Any]) -> list[list[str]]:
    """Head and lines: a run each, a strategy each, then how many each strategy walks back."""
    names = list(next(iter(result.values())))
    lines = [[run, *(SHORT[verdicts[name]] for name in names)] for run, verdicts in result.items()]
    back = [sum(verdicts[name] == WALK_BACK for verdicts in result.values()) for name in names]
    return [["run", *names], *lines, [f"walked back of {len(result)}", *map(str, back)]]


def sensitivity_table(result: dict[str, Any]) -> list[list[str]]:
    """Head and lines: a threshold each, and how many verdicts change at each place of its grid."""
    lines = []
    for name, entry in result.items():
        grid = ", ".join(f"{place['value']:g}: {len(place['changed'])}" for place in entry["grid"])
        lines.append([name.replace("_", " "), f"{entry['stands']:g}", grid])
    runs = next(iter(result.values()))["runs"] if result else 0
    return [["threshold", "stands at", f"verdicts of {runs} that change, had it stood at"], *lines]


def aligned(table: list[list[str]]) -> list[str]:
    """A table as lines of text."""
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def markdown(table: list[list[str]]) -> list[str]:
    """The same in Markdown."""
    head, *lines = table
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
