"""The claims of the papers whose runs are in a store, as tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import VERDICTS, judged
from faudit.papers.page import allowed, number, verdict
from faudit.papers.paper import Paper

NOT_RUN = "not run"
REHEARSED = "rehearsed"  # in place of a verdict: other data or fewer epochs say nothing about a claim


def claims_of(store: Path, configs: Iterable[RunConfig]) -> list[dict[str, Any]]:
    """The claims of every paper of which the store has a run; as a rehearsal if its own data were not used."""
    lengths = Counter((config.data, config.epochs) for config in configs)
    found = []
    runs = Table(next(iter(PAPERS.values())).plan(), store)  # every paper reads the same runs
    for paper in PAPERS.values():
        for data, epochs in [(None, None), *(length for length, _ in lengths.most_common(1))]:
            if table := claims_table(paper, runs.again(), data=data, epochs=epochs):
                found.append(table)
                break
    return found


def claims_table(paper: Paper, table: Table, *, data: str | None, epochs: int | None) -> dict[str, Any] | None:
    """The claims of one paper; None if the store has no run for any of them."""
    try:
        table.plan = plan = paper.plan(data, epochs=epochs)
        entries = judged(paper.claims, table)
    except ConfigError:  # a net of the paper cannot take the data of these runs
        return None
    if all(entry["verdict"] == NOT_RUN for entry in entries):
        return None
    length = f", {epochs} epochs" if epochs else ""
    words = [verdict(entry) if plan.is_full or entry["verdict"] == NOT_RUN else REHEARSED for entry in entries]
    kinds = VERDICTS if plan.is_full else (REHEARSED, NOT_RUN)
    return {
        "paper": paper.name,
        "title": paper.title,
        "reference": paper.reference,
        "rehearsal": "" if plan.is_full else f"{data}{length}",
        "seeds": list(plan.seeds),
        "counts": {kind: sum(word.split(" (")[0] == kind for word in words) for kind in kinds},
        "rows": [
            {
                "number": entry["number"],
                "claim": entry["claim"],
                "published": entry["published"],
                "ours": "; ".join(f"{part['what']} {number(part)}" for part in entry["parts"]),
                "n": ", ".join(dict.fromkeys(f"{part['n']}/{part['expected']}" for part in entry["parts"])),
                "tolerance": ", ".join(dict.fromkeys(allowed(part) for part in entry["parts"])),
                "verdict": word,
            }
            for entry, word in zip(entries, words, strict=True)
        ],
    }
