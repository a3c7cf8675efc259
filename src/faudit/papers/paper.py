"""The paper contract: the experiments, figures, claims and result files of a published work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from faudit.errors import ConfigError
from faudit.figures import OF_STUDIES
from faudit.figures.plan import Plan, Recipe, Sizes
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import Claim
from faudit.store.run import Run
from faudit.sweep import STUDIES
from faudit.sweep.study import read_study

ITSELF = "the paper itself"  # a source: the published numbers are those that the paper prints


@dataclass(frozen=True)
class Files:
    """The result files that came with a paper."""

    export: Callable[[Table, Path], list[Path]]  # write the files for which the table has runs into a folder
    import_files: Callable[[Iterable[Path], Path], tuple[list[Run], list[str]]]  # files, store → runs, refusals


@dataclass(frozen=True)
class Paper:
    """A published work. ``figures`` are registry names; a paper without any gets one figure made from its claims.

    ``source`` says where the published numbers were read. ``core_hours`` is an estimate for all runs. ``notes`` is
    printed above the table of claims.
    """

    name: str
    title: str
    reference: str
    source: str
    core_hours: float
    recipe: Callable[[], Recipe]
    claims: tuple[Claim, ...]
    figures: tuple[str, ...] = ()
    notes: str = ""
    files: Files | None = None

    def plan(self, data: str | None = None, *, epochs: int | None = None, seeds: tuple[int, ...] | None = None) -> Plan:
        """The plan of its experiments: as in the paper, or a rehearsal on other data or for fewer epochs."""
        return self.recipe().plan(data, epochs=epochs, seeds=seeds)


def study_recipe(name: str, *, sizes: Sizes | None = None, shortened: tuple[str, ...] = ()) -> Callable[[], Recipe]:
    """The recipe in a paper's ``runs.toml``. The file is read at the first call.

    The paper's dataset is that of the first experiment. ``shortened`` are first words of experiments that are slow to
    train and for which shorter runs may be used.
    """

    @cache
    def recipe() -> Recipe:
        experiments = read_study(STUDIES[name]).experiments
        firsts = {experiment: runs[0] for experiment, runs in experiments.items()}
        return Recipe(
            firsts,
            data=next(iter(firsts.values())).data,
            seeds=tuple(dict.fromkeys(run.seed for runs in experiments.values() for run in runs)),
            own_seeds={name: tuple(run.seed for run in runs) for name, runs in experiments.items()},
            sizes=sizes or {},
            shortened=tuple(experiment for experiment in firsts if experiment.split()[0] in shortened),
        )

    return recipe


def files_of(paper: Paper) -> Files:
    """The result files of a paper. Raises if it has none."""
    if paper.files is None:
        raise ConfigError(f"the paper {paper.name} has no result files: expected one that has, got {paper.name!r}")
    return paper.files


def recipe_with(figure: str) -> Recipe:
    """The experiments that a figure shows some or all of: those of its paper or of its study."""
    return study_recipe(OF_STUDIES[figure])() if figure in OF_STUDIES else paper_with(figure).recipe()


def paper_with(figure: str) -> Paper:
    """The paper that a figure belongs to. The figure shows experiments of this paper."""
    for paper in PAPERS.values():
        if figure in paper.figures:
            return paper
    raise ConfigError(f"the figure {figure!r} belongs to no paper: expected it among the figures of one")
