"""The benchmark's tables: how many broken networks each strategy catches, and how many healthy ones it flags.

There is one table for the kinds on which thresholds may be set, and one for the others. A broken network with the
verdict "needs walk-back" is caught. A healthy one with that verdict is flagged. Inconclusive verdicts count as neither
and are listed by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faudit.audit.checks.check import FIRED, Case
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.protocol import PROTOCOLS, Protocol
from faudit.audit.strategies import side_by_side
from faudit.bench.protocol.cases import CASES, REPORT, SET, half
from faudit.formats import size
from faudit.stats import wilson_interval

Verdicts = dict[tuple[str, int], str]  # (case, seed) → verdict
HALVES = {REPORT: "kinds that no threshold was set on", SET: "kinds that thresholds may be set on"}
SIDES = {"broken": False, "healthy": True}


@dataclass(frozen=True)
class Column:
    """The verdicts of one strategy."""

    strategy: str
    verdicts: Verdicts

    def shares(self, part: str, *, healthy: bool) -> dict[str, Any]:
        """Counts over the healthy or broken networks of a half: each verdict, and the share walked back."""
        asked = {
            key: word
            for key, word in self.verdicts.items()
            if CASES[key[0]].healthy is healthy and half(key[0]) == part
        }
        back = [key for key, word in asked.items() if word == WALK_BACK]
        low, high = wilson_interval(len(back) / len(asked), len(asked))
        neither = [key for key, word in asked.items() if word == INCONCLUSIVE]
        return {
            "kinds": len({name for name, _ in asked}),
            "n": len(asked),
            "walked_back": len(back),
            "share": len(back) / len(asked),
            "interval": [low, high],
            "trustworthy": list(asked.values()).count(TRUSTWORTHY),
            "inconclusive": len(neither),
            "neither": named(neither),
            "wrong": named([key for key, word in asked.items() if (word == WALK_BACK) is healthy]),
        }


def columns(cases: Mapping[tuple[str, int], Case]) -> list[Column]:
    """Every strategy's verdict on every case."""
    return [
        Column(name, {key: strategy(case) for key, case in cases.items()}) for name, strategy in side_by_side().items()
    ]


def document(cases: Mapping[tuple[str, int], Case], *, seeds: list[int], code: str) -> dict[str, Any]:
    """The result as JSON."""
    found, ours = columns(cases), next(iter(PROTOCOLS.values()))
    return {
        "seeds": seeds,
        "code": code,
        "cases": len(CASES),
        "protocol": ours.name,  # the checks and values below are of this protocol
        "columns": {
            column.strategy: {
                part: {side: column.shares(part, healthy=healthy) for side, healthy in SIDES.items()} for part in HALVES
            }
            for column in found
        },
        "verdicts": {
            name: {column.strategy: [column.verdicts[name, seed] for seed in seeds] for column in found}
            for name in CASES
        },
        "fired": {name: {str(seed): fired(cases[name, seed], ours) for seed in seeds} for name in CASES},
        "values": spans(cases, ours),
    }


def fired(case: Case, protocol: Protocol) -> list[str]:
    """The checks that fired."""
    return [finding.check for finding in judge(case, protocol).findings if finding.status == FIRED]


def spans(cases: Mapping[tuple[str, int], Case], protocol: Protocol) -> dict[str, Any]:
    """Per check: the range of its value over the healthy networks, and over the broken networks on which it fired."""
    out: dict[str, Any] = {}
    for (name, _), case in cases.items():
        for finding in judge(case, protocol).findings:
            if finding.value is None:
                continue
            entry = out.setdefault(finding.check, {"threshold": finding.threshold, "healthy": [], "fired on": []})
            if CASES[name].healthy:
                entry["healthy"].append(finding.value)
            elif finding.status == FIRED:
                entry["fired on"].append(finding.value)
    for entry in out.values():
        for side in ("healthy", "fired on"):
            entry[side] = [min(entry[side]), max(entry[side])] if entry[side] else None
    return out


def named(keys: list[tuple[str, int]]) -> list[str]:
    """The names of cases, each with its seeds."""
    seeds: dict[str, list[int]] = {}
    for name, seed in keys:
        seeds.setdefault(name, []).append(seed)
    return [f"{name} (seed {', '.join(map(str, found))})" for name, found in seeds.items()]


def summary(result: dict[str, Any]) -> list[str]:
    """Markdown: a table for each half, with the numbers of networks that each strategy caught and flagged."""
    out = []
    for part, title in HALVES.items():
        columns = {name: column[part] for name, column in result["columns"].items()}
        kinds = {side: next(iter(columns.values()))[side]["kinds"] for side in SIDES}
        out += ["", f"**{title.capitalize()}**: {kinds['broken']} broken, {kinds['healthy']} healthy.", ""]
        out += ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
        for side, what in (("broken", "caught"), ("healthy", "flagged")):
            shares = (share(column[side]) for column in columns.values())
            out.append(f"| {side}, walked back ({what}) | " + " | ".join(shares) + " |")
            for word in ("inconclusive", "trustworthy"):
                out.append(f"| {side}, {word} | " + " | ".join(str(one[side][word]) for one in columns.values()) + " |")
    return out[1:]


def page(result: dict[str, Any]) -> str:
    """Markdown: the tables, the details behind them, and every case."""
    names, seeds = list(result["columns"]), ", ".join(map(str, result["seeds"]))
    out = [
        "# The planted-fault benchmark",
        "",
        f"{result['cases']} cases × seeds {seeds}, on the shipped digits, by `faudit bench protocol --seeds "
        f"{' '.join(map(str, result['seeds']))}`; "
        f"code {result['code']}.",
        "",
        *summary(result),
    ]
    out += ["", "Intervals are Wilson's, 95 %. Inconclusive counts as neither.", ""]
    for name in names:
        for part, title in HALVES.items():
            for side, what in (("broken", "not caught"), ("healthy", "flagged")):
                entry = result["columns"][name][part][side]
                out.append(f"- {name}, {title}, {side} and {what}: {'; '.join(entry['wrong']) or 'none'}")
                if entry["neither"]:
                    out.append(f"- {name}, {title}, {side} and inconclusive: {'; '.join(entry['neither'])}")
    out += ["", "## Where the thresholds stand", "", "| check | threshold | healthy | broken it fired on |"]
    out.append("|---|---|---|---|")
    for check, entry in result["values"].items():
        cells = [span(entry["healthy"]), span(entry["fired on"])]
        out.append(f"| {check} | {size(entry['threshold'])} | " + " | ".join(cells) + " |")
    out += ["", "## Every case", ""]
    out.append(f"| case | half | label | {' | '.join(names)} | checks of {result['protocol']} that fired |")
    out.append("|---|---|---|" + "---|" * len(names) + "---|")
    for name, verdicts in result["verdicts"].items():
        label = f"{'healthy' if CASES[name].healthy else 'broken'}: {CASES[name].why}"
        cells = [told(verdicts[column]) for column in names]
        checks = sorted({check for found in result["fired"][name].values() for check in found})
        row = [name, half(name), label, *cells, ", ".join(checks) or "–"]
        out.append(f"| {' | '.join(row)} |")
    return "\n".join([*out, ""])


def share(entry: dict[str, Any]) -> str:
    low, high = entry["interval"]
    return f"{entry['walked_back']} of {entry['n']}: {entry['share']:.1%} ({low:.0%}–{high:.0%})"


def told(words: list[str]) -> str:
    """The verdicts on one case over its seeds: one word if all agree, otherwise one by one."""
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def span(values: list[float] | None) -> str:
    return "–" if values is None else f"{size(values[0])} to {size(values[1])}"
