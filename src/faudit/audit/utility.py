"""Decision utility and threshold sensitivity of audited runs: two tables, as text, Markdown and JSON.

The first table shows the conclusion of each reporting strategy on each run. The second shows how many verdicts change
if a threshold is varied.
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
    """For each threshold: its value, and at each value of its grid the runs whose verdict changes."""
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
    """One line per run and one column per strategy, then the number of runs that each strategy walks back."""
    names = list(next(iter(result.values())))
    lines = [[run, *(SHORT[verdicts[name]] for name in names)] for run, verdicts in result.items()]
    back = [sum(verdicts[name] == WALK_BACK for verdicts in result.values()) for name in names]
    return [["run", *names], *lines, [f"walked back of {len(result)}", *map(str, back)]]


def sensitivity_table(result: dict[str, Any]) -> list[list[str]]:
    """One line per threshold, with the number of verdicts that change at each value of its grid."""
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
    """A table as lines of Markdown."""
    head, *lines = table
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
