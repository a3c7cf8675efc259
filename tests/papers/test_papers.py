"""Every paper is whole: what its figures, claims and files name can be run, and every figure belongs to a paper."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.errors import ConfigError
from faudit.figures import FIGURES, OF_STUDIES
from faudit.papers import PAPERS
from faudit.papers.claim import Between, Part, Reading
from faudit.papers.paper import files_of, paper_with
from faudit.papers.reproduce import NAMES, experiments_of, papers_of
from faudit.store.rows import Row
from faudit.sweep import STUDIES
from faudit.sweep.study import read
from faudit.train import TEST_EVERY

WHOLE = 10_000  # samples of the largest test set


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_has_a_name_a_title_and_a_reference(name: str) -> None:
    paper = PAPERS[name]
    assert paper.name == name and paper.title and paper.reference and paper.source and paper.core_hours > 0
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
def test_claims_are_told_apart_and_published_numbers_are_complete(name: str) -> None:
    claims = PAPERS[name].claims
    assert claims and len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.published and claim.parts and claim.experiments
        assert len({part.what for part in claim.parts}) == len(claim.parts), claim.name
        for part in claim.parts:
            assert len(part.points()) in (0, len(part.experiments)), claim.name
            if isinstance(part, Part):
                assert part.tolerance >= 0 and (part.published is None) == (part.kind == "never"), claim.name
            elif isinstance(part, Between):
                assert part.low < part.high, claim.name


@pytest.mark.parametrize("name", PAPERS)
def test_what_a_claim_reads_is_in_its_runs(name: str) -> None:
    plan = PAPERS[name].plan()
    for claim in PAPERS[name].claims:
        for part in claim.parts:
            configs = [plan.config(experiment) for experiment in part.experiments]
            if isinstance(part, Part) and part.seeds:
                assert all(set(part.seeds) <= set(plan.seeds_of(one)) for one in part.experiments), claim.name
            if not isinstance(part.measure, Reading):
                continue
            epoch = part.measure.epoch
            assert epoch is None or epoch <= min(config.epochs for config in configs), claim.name
            for config in configs:
                row = Row(epoch=config.epochs if epoch is None else epoch, acc_eval=0.5, test_samples=0)
                row["eval_samples"] = 0 if config.eval_size >= WHOLE else 1
                row["test_acc"] = 0.5 if row["epoch"] % TEST_EVERY == 0 or row["epoch"] == config.epochs else None
                value = part.measure([row])  # raises KeyError for an entry that no probe declares
                assert value is not None or part.kind not in ("accuracy", "error"), f"{claim.name}: not measured then"


@pytest.mark.parametrize("name", PAPERS)
def test_the_full_plan_is_the_study_file_of_that_name(name: str) -> None:
    plan = PAPERS[name].plan()
    planned = [plan.config(one, seed) for one in plan.recipe.experiments for seed in plan.seeds_of(one)]
    assert plan.is_full and name in STUDIES and read(Path(name)) == planned


def test_every_figure_belongs_to_one_paper_and_every_name_of_reproduce_means_something() -> None:
    owners = Counter(figure for paper in PAPERS.values() for figure in paper.figures)
    of_papers = [figure for figure in FIGURES if figure not in OF_STUDIES]
    assert owners == Counter(of_papers) and set(OF_STUDIES.values()) <= set(STUDIES)
    assert all(paper_with(figure).name in PAPERS for figure in of_papers)
    for name in NAMES:
        assert all(experiments_of(name, paper) for paper in papers_of(name)), name
    assert papers_of("all") == papers_of("claims") == list(PAPERS.values())


def test_a_figure_of_no_paper_and_a_paper_without_files_are_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to no paper"):
        paper_with("histogram")
    with pytest.raises(ConfigError, match="has no result files"):
        files_of(replace(PAPERS["faeval"], files=None))


def test_papers_are_listed_with_what_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "papers", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts) == list(PAPERS) and facts["faeval"] == {
        "reference": "arXiv 2606.21126", "runs": 63, "core-hours": 115.0, "claims": 17,
        "title": "What Accuracy and Gradient Cosine Miss",
    }  # fmt: skip
    assert main(["list", "papers"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["paper", "reference", "runs", "core-hours", "claims", "title"]
    assert [line.split()[0] for line in lines] == list(PAPERS) and lines[0].split()[3:6] == ["63", "115.0", "17"]
