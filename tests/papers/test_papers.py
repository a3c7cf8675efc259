"""Every paper is whole: what its figures, claims and files name can be run, and every figure belongs to a paper."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.errors import ConfigError
from faudit.figures import FIGURES
from faudit.papers import PAPERS
from faudit.papers.paper import files_of, paper_with
from faudit.papers.reproduce import NAMES, experiments_of, papers_of
from faudit.sweep import STUDIES
from faudit.sweep.study import read


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_has_a_name_a_title_and_a_reference(name: str) -> None:
    paper = PAPERS[name]
    assert paper.name == name and paper.title and paper.reference
    assert paper.title in PAPERS.summary(name) and paper.reference in PAPERS.summary(name)


@pytest.mark.parametrize("name", PAPERS)
def test_everything_a_paper_names_is_one_of_its_experiments(name: str) -> None:
    paper = PAPERS[name]
    known = set(paper.recipe().experiments)
    for part in (*paper.figures, "claims"):
        assert set(experiments_of(part, paper)) <= known, part
    assert set(paper.recipe().shortened) <= known
    assert experiments_of(name, paper) == list(paper.recipe().experiments)


@pytest.mark.parametrize("name", PAPERS)
def test_the_full_plan_is_the_study_file_of_that_name(name: str) -> None:
    plan = PAPERS[name].plan()
    planned = [plan.config(experiment, seed) for experiment in plan.recipe.experiments for seed in plan.seeds]
    assert plan.is_full and name in STUDIES and read(Path(name)) == planned


def test_every_figure_belongs_to_one_paper_and_every_name_of_reproduce_means_something() -> None:
    owners = Counter(figure for paper in PAPERS.values() for figure in paper.figures)
    assert owners == Counter(list(FIGURES))
    assert all(paper_with(figure).name in PAPERS for figure in FIGURES)
    for name in NAMES:
        assert all(experiments_of(name, paper) for paper in papers_of(name)), name
    assert papers_of("all") == papers_of("claims") == list(PAPERS.values())


def test_a_figure_of_no_paper_and_a_paper_without_files_are_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to no paper"):
        paper_with("histogram")
    with pytest.raises(ConfigError, match="has no result files"):
        files_of(replace(PAPERS["faeval"], files=None))


def test_papers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "papers", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(PAPERS)
