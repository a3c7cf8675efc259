"""The demo: six ways to train one network on the digits that faudit ships, side by side.

BP learns; DFA's stream explodes behind the terminal LayerNorm and does worse than blocks that never trained; a
penalty on the branches holds the stream back. Each run takes seconds and is a run like any other: killed, it resumes;
finished, it is not run again.
"""

from __future__ import annotations

from pathlib import Path

from faudit.config import RunConfig

RECIPE = RunConfig(data="digits", epochs=30, batch_size=32, width=128)

RUNS = [
    RECIPE.with_(rule="bp"),
    RECIPE.with_(rule="fa"),
    RECIPE.with_(rule="dfa"),
    RECIPE.with_(rule="dfa", penalty=0.01),
    RECIPE.with_(rule="frozen-dfa"),
    RECIPE.with_(rule="frozen-bp"),
]


def title(config: RunConfig) -> str:
    """A demo run in a word."""
    return config.rule + (f" + λ={config.penalty:g}" if config.penalty else "")


def store(out: Path) -> Path:
    """Where the demo keeps its runs."""
    return out / "runs"
