"""The demo: the study's story on the digits that faudit ships, as a table, verdicts and two figures.

BP learns; DFA's stream explodes behind the terminal LayerNorm and does worse than blocks that never trained; a
penalty on the branches holds the stream back. Each run takes seconds and is a run like any other: killed, it resumes;
finished, it is not run again.  (no torch)
"""

from __future__ import annotations

import json
from pathlib import Path

from faudit.arms import PENALTIES, Plan
from faudit.config import RunConfig
from faudit.figures import FIGURES
from faudit.figures.figure import FORMATS, make
from faudit.figures.table import Table
from faudit.store import Run, write_json, write_whole

PLAN = Plan(data="digits", epochs=30, seeds=(42,))
RECIPE = PLAN.config("resmlp bp")

RUNS = [
    RECIPE,
    RECIPE.with_(rule="fa"),
    RECIPE.with_(rule="dfa"),
    *(RECIPE.with_(rule="dfa", penalty=value) for value in PENALTIES),
    RECIPE.with_(rule="frozen-dfa"),
    RECIPE.with_(rule="frozen-fa"),
    RECIPE.with_(rule="frozen-bp"),
    RECIPE.with_(rule="bp", no_terminal_norm=True),
    RECIPE.with_(rule="dfa", no_terminal_norm=True),
]
DRAWN = ("snapshot-resmlp", "penalty-sweep")


def title(config: RunConfig) -> str:
    """A demo run in a word."""
    penalty = f" + λ={config.penalty:g}" if config.penalty else ""
    return config.rule + penalty + (", no terminal LN" if config.no_terminal_norm else "")


def store(out: Path) -> Path:
    """Where the demo keeps its runs."""
    return out / "runs"


def verdicts(out: Path) -> dict[str, tuple[str, str]]:
    """The audit's word on each run and its first reason, by the run's title; the whole of it goes to ``audit.md``."""
    kept, page_file = out / "audit.json", out / "audit.md"
    names = [config.run_id for config in RUNS]
    found = json.loads(kept.read_text()) if kept.exists() and page_file.exists() else {}
    if found.get("runs") != names:
        from faudit.audit.audit import audit
        from faudit.audit.protocol import PROTOCOLS
        from faudit.audit.template import page

        audited = [audit(Run(store(out) / name), PROTOCOLS["faudit-1"], data_dir=None) for name in names]
        write_whole(page_file, page(audited, utility_of=None, sensitivity_of=None).encode())
        found = {"runs": names, "verdicts": [[one.verdict.verdict, one.verdict.reasons[0]] for one in audited]}
        write_json(kept, found)
    told = zip(RUNS, found["verdicts"], strict=True)
    return {title(config): (str(word), str(reason)) for config, (word, reason) in told}


def draw(out: Path) -> list[Path]:
    """The demo's figures in every format; returns the PNGs, or nothing new where they are drawn already."""
    from faudit.figures.style import Style

    pictures = []
    for name in DRAWN:
        paths = [out / f"{name}.{form}" for form in FORMATS]
        if not all(path.exists() for path in paths):
            make(name, FIGURES[name](), Table(PLAN, store(out)), style=Style(), paths=paths)
        pictures.append(paths[-1])
    return pictures
