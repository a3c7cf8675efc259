"""The paper contract: a published work as its experiments, figures, claims and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from faudit.errors import ConfigError
from faudit.figures.plan import Plan, Recipe
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import Claim
from faudit.store.run import Run


@dataclass(frozen=True)
class Files:
    """The result files that came with a paper."""

    export: Callable[[Table, Path], list[Path]]  # write those that the table has runs for, under a folder
    import_files: Callable[[Iterable[Path], Path], tuple[list[Run], list[str]]]  # into a store; what was refused


@dataclass(frozen=True)
class Paper:
    """A published work. ``figures`` are names of the registry; ``notes`` are what a reader of the claims must know."""

    name: str
    title: str
    reference: str
    recipe: Callable[[], Recipe]
    figures: tuple[str, ...]
    claims: tuple[Claim, ...]
    notes: str = ""
    files: Files | None = None

    def plan(self, data: str | None = None, *, epochs: int | None = None, seeds: tuple[int, ...] | None = None) -> Plan:
        """How its experiments are run: as in the paper, or a rehearsal on other data or for fewer epochs."""
        return self.recipe().plan(data, epochs=epochs, seeds=seeds)


def files_of(paper: Paper) -> Files:
    """The result files of a paper, if it has any."""
    if paper.files is None:
        raise ConfigError(f"the paper {paper.name} has no result files: expected one that has, got {paper.name!r}")
    return paper.files


def paper_with(figure: str) -> Paper:
    """The paper that a figure belongs to: its experiments are those that the figure shows."""
    for paper in PAPERS.values():
        if figure in paper.figures:
            return paper
    raise ConfigError(f"the figure {figure!r} belongs to no paper: expected it among the figures of one")
