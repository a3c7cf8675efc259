"""The claims as Markdown: a page with the table, remarks and commands, and a section of the documentation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faudit.figures.plan import Plan
from faudit.figures.table import Table
from faudit.formats import printed_angle, printed_cosine, printed_percent, printed_share, printed_size
from faudit.latex import tabular
from faudit.papers import PAPERS
from faudit.papers.claim import VERDICTS, judged
from faudit.papers.paper import ITSELF, Paper

FORMS: dict[str, Callable[[float], str]] = {
    "norm": printed_size, "cosine": printed_cosine, "accuracy": printed_share, "error": printed_percent,
    "angle": printed_angle, "credit angle": printed_angle, "nse": printed_size,
    "epoch": lambda epoch: f"epoch {epoch:.0f}",
}  # fmt: skip
NOWHERE = Path(os.devnull)  # a store without runs
UNITS = {"epoch": " epochs", "error": " pp", "angle": "°", "credit angle": "°"}  # of a tolerance


def page(paper: Paper, entries: list[dict[str, Any]], *, plan: Plan, remarks: list[str]) -> str:
    """The whole page."""
    counts = {verdict: sum(entry["verdict"] == verdict for entry in entries) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    out = ["# The paper's claims, measured again", "", f"{paper.title} ({paper.reference}).", ""]
    if not plan.is_full:
        length = f", {plan.epochs} epochs" if plan.epochs else ""
        out += [
            f"**A rehearsal** ({plan.data}{length}): it shows that every step runs, and says nothing of the claims.",
            "",
        ]
    if paper.source != ITSELF:
        out += [f"Published numbers: {paper.source}.", ""]
    out += [
        f"{len(entries)} claims: {told}. Seeds {', '.join(map(str, plan.seeds))}.",
        "",
        "Accuracies (full test set), Γ and ρ: mean over n runs and its 95 % interval. Norms: geometric mean, least and",
        f"most. Epochs: least and most. {paper.notes}".rstrip(),
        "",
        *table(entries, rehearsal=not plan.is_full),
    ]
    if remarks:
        out += ["", "To know:", "", *(f"- {remark}" for remark in remarks)]
    out += ["", "## Commands", ""]
    for entry in entries:
        out += [f"{entry['number']}. {entry['claim']}", "", *(f"        {line}" for line in entry["commands"]), ""]
    return "\n".join(out)


def section(paper: Paper, found: Mapping[str, Any] | None) -> list[str]:
    """A paper in the documentation; ``found`` is its claims.json, None if there are no results yet."""
    plan, source = paper.plan(), "the paper" if paper.source == ITSELF else paper.source
    seeds = f"seed{'s' if len(plan.seeds) > 1 else ''} {', '.join(map(str, plan.seeds))}"
    runs = sum(len(plan.seeds_of(experiment)) for experiment in plan.recipe.experiments)
    text = [
        f"{paper.title} ({paper.reference}).",
        f"Published numbers: {source}.",
        f"Runs: {runs}, {seeds}.",
        paper.notes,
    ]
    results = table(found["claims"], rehearsal=found["rehearsal"]) if found else ["Not run yet.", "", *asked(paper)]
    return [f"### {paper.name}", "", *filter(None, text), "", *results, ""]


def asked(paper: Paper) -> list[str]:
    """A table of what the claims of a paper ask."""
    out = ["| # | claim | published | tolerance | asks |", "|---|---|---|---|---|"]
    for entry in judged(paper.claims, Table(paper.plan(), NOWHERE)):
        tolerances = ", ".join(dict.fromkeys(allowed(part) for part in entry["parts"]))
        asks = "; ".join(dict.fromkeys(needs(part) for part in entry["parts"]))
        cells = [str(entry["number"]), entry["claim"], entry["published"], tolerances, asks]
        out.append(f"| {' | '.join(cells)} |")
    return out


def overview(papers: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """One line for each paper: how many of its claims have which verdict; ``papers`` has the claims.json of each."""
    out = [f"| {' | '.join(['paper', 'claims', *VERDICTS])} |", "|---" * (2 + len(VERDICTS)) + "|"]
    for name, found in papers.items():
        verdicts = [entry["verdict"] for entry in found["claims"]] if found else []
        claims = len(verdicts) or len(PAPERS[name].claims)
        counts = [verdicts.count(verdict) if found else claims * (verdict == "not run") for verdict in VERDICTS]
        out.append(f"| {' | '.join(map(str, [f'`{name}`', claims, *counts]))} |")
    return out


# Shares of the line in LaTeX.
WIDE = {"claim": 0.23, "published": 0.12, "ours": 0.21, "n": 0.06, "tolerance": 0.09, "verdict": 0.11}
HEAD = ["#", "claim", "published", "ours", "n", "tolerance", "verdict"]


def table(entries: list[dict[str, Any]], *, rehearsal: bool = False) -> list[str]:
    """The table in Markdown, one line per claim."""
    head, *lines = [f"| {' | '.join(line)} |" for line in (HEAD, *cells(entries, rehearsal=rehearsal))]
    return [head, "|" + "---|" * len(HEAD), *lines]


def tex(paper: Paper, entries: list[dict[str, Any]], *, plan: Plan) -> str:
    """The table in LaTeX, one line per claim."""
    lines = [[cell.replace("**", "") for cell in line] for line in cells(entries, rehearsal=not plan.is_full)]
    return tabular([HEAD, *lines], wide=WIDE, caption=f"{paper.title} ({paper.reference})")


def cells(entries: list[dict[str, Any]], *, rehearsal: bool) -> list[list[str]]:
    """The cells of each claim."""
    mark = " (rehearsal)" if rehearsal else ""
    return [
        [
            str(entry["number"]),
            entry["claim"],
            entry["published"],
            "; ".join(written(part) for part in entry["parts"]),
            ", ".join(dict.fromkeys(f"{part['n']}/{part['expected']}" for part in entry["parts"])),
            ", ".join(dict.fromkeys(allowed(part) for part in entry["parts"])),
            verdict(entry) + mark,
        ]
        for entry in entries
    ]


def verdict(entry: dict[str, Any]) -> str:
    """The verdict of a claim. A partial one says what the claim asks."""
    if entry["verdict"] != "partial":
        return str(entry["verdict"])
    asks = dict.fromkeys(needs(part) for part in entry["parts"] if part["verdict"] == "partial")
    return f"partial (asks {'; '.join(asks)})"


def needs(part: dict[str, Any]) -> str:
    """The seeds and epochs that a part asks."""
    seeds, epochs = part["asked"]["seeds"], part["asked"]["epochs"]
    return f"{some(seeds)} seed{'s' if seeds[-1] > 1 else ''}, {some(epochs)} epochs"


def some(counts: list[int]) -> str:
    """The least and the most of sorted numbers."""
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def allowed(part: dict[str, Any]) -> str:
    """The tolerance in words."""
    if "order" in part:
        return f"in order ({part['order']})"
    if "between" in part:
        return interval(*part["between"], unit=UNITS.get(part["kind"], ""))
    if part["kind"] == "never":
        return "never"
    if part["kind"] == "norm":
        return f"factor {part['tolerance']:g}"
    return f"± {plain(part['tolerance'])}{UNITS.get(part['kind'], '')}"


def interval(low: float | None, high: float | None, *, unit: str) -> str:
    """An interval in words; an edge may be open."""
    if low is None or high is None:
        return f"≥ {plain(low)}{unit}" if low is not None else f"≤ {plain(high or 0.0)}{unit}"
    return f"{plain(low)} to {plain(high)}{unit}"


def plain(value: float) -> str:
    return f"{value:g}".replace("0.", ".").replace("-", "−")


def written(part: dict[str, Any]) -> str:
    """A part's number with its interval, and a mark if it deviates."""
    mark = " **(deviates)**" if part["verdict"] == "deviates" else ""
    lost = f", {part['diverged']} diverged" if part["diverged"] else ""
    shorter = f" (after {', '.join(map(str, part['shorter']))} epochs)" if part["shorter"] else ""
    return f"{part['what']} {number(part)}{shorter}{lost}{mark}"


def number(part: dict[str, Any]) -> str:
    if "order" in part and part["means"]:
        return f" {part['order']} ".join(formed(mean, part["kind"]) for mean in part["means"])
    if part["n"] == 0:
        return "not reached" if part["verdict"] == "partial" else "not run"
    if part["kind"] in ("never", "epoch"):
        fired = [value for value in part["values"] if value is not None]
        never = part["n"] - len(fired)
        if not fired:
            return "never"
        epochs = f"epoch {min(fired):.0f}" if min(fired) == max(fired) else f"epochs {min(fired):.0f}–{max(fired):.0f}"
        return f"{epochs}, never in {never} of {part['n']}" if never else epochs
    if part["n"] == 1 or part["low"] is None:
        return formed(part["ours"], part["kind"])
    ours, low, high = (formed(part[name], part["kind"]) for name in ("ours", "low", "high"))
    return f"{ours} [{low}, {high}]"


def formed(value: float | None, kind: str) -> str:
    """A number in the format of its kind. None is a number that overflowed."""
    return "overflowed" if value is None else FORMS[kind](value)
