"""The paper contract: the experiments, figures, claims and result files of a published work."""

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

    export: Callable[[Table, Path], list[Path]]  # write the files for which the table has runs into a folder
    import_files: Callable[[Iterable[Path], Path], tuple[list[Run], list[str]]]  # files, store → runs, refusals


@dataclass(frozen=True)
class Paper:
    """A published work. ``figures`` are registry names; ``notes`` is printed above the table of claims."""

    name: str
    title: str
    reference: str
    recipe: Callable[[], Recipe]
    figures: tuple[str, ...]
    claims: tuple[Claim, ...]
    notes: str = ""
    files: Files | None = None

    def plan(self, data: str | None = None, *, epochs: int | None = None, seeds: tuple[int, ...] | None = None) -> Plan:
        """The plan of its experiments: as in the paper, or a rehearsal on other data or for fewer epochs."""
        return self.recipe().plan(data, epochs=epochs, seeds=seeds)


def files_of(paper: Paper) -> Files:
    """The result files of a paper. Raises if it has none."""
    if paper.files is None:
        raise ConfigError(f"the paper {paper.name} has no result files: expected one that has, got {paper.name!r}")
    return paper.files


def paper_with(figure: str) -> Paper:
    """The paper that a figure belongs to. The figure shows experiments of this paper."""
    for paper in PAPERS.values():
        if figure in paper.figures:
            return paper
    raise ConfigError(f"the figure {figure!r} belongs to no paper: expected it among the figures of one")
