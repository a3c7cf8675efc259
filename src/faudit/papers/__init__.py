"""Published papers: their runs, claims and file formats. One folder each, described by a ``papers.paper.Paper``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.papers.paper import Paper

PAPERS: Registry[Paper] = Registry("paper", {"faeval": "faudit.papers.faeval:PAPER"})
