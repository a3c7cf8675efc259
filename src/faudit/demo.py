"""The demo: the study's story on the digits that faudit ships, as a table and two figures.

BP learns; DFA's stream explodes behind the terminal LayerNorm and does worse than blocks that never trained; a
penalty on the branches holds the stream back. Each run takes seconds and is a run like any other: killed, it resumes;
finished, it is not run again.  (no torch)
"""

from __future__ import annotations

from pathlib import Path

from faudit.arms import PENALTIES, Plan
from faudit.config import RunConfig
from faudit.figures import FIGURES
from faudit.figures.figure import FORMATS, make
from faudit.figures.table import Table

PLAN = Plan(data="digits", epochs=30, seeds=(42,))
RECIPE = PLAN.config("resmlp bp")

RUNS = [
    RECIPE,
    RECIPE.with_(rule="fa"),
    RECIPE.with_(rule="dfa"),
    *(RECIPE.with_(rule="dfa", penalty=value) for value in PENALTIES),
    RECIPE.with_(rule="frozen-dfa"),
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
