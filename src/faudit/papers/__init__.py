"""Published papers: their runs, claims and file formats. One folder each, described by a ``papers.paper.Paper``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.papers.paper import Paper

PAPERS: Registry[Paper] = Registry(
    "paper",
    {
        "faeval": "faudit.papers.faeval:PAPER",
        "akrout": "faudit.papers.akrout:PAPER",
        "bartunov": "faudit.papers.bartunov:PAPER",
        "biotorch": "faudit.papers.biotorch:PAPER",
        "drtp": "faudit.papers.drtp:PAPER",
        "ep": "faudit.papers.ep:PAPER",
        "forward-forward": "faudit.papers.forward_forward:PAPER",
        "lillicrap": "faudit.papers.lillicrap:PAPER",
        "local-loss": "faudit.papers.local_loss:PAPER",
        "pepita": "faudit.papers.pepita:PAPER",
    },
)
