"""The kinds of numbers that a claim compares, on a made-up paper: agreement, partial runs, missing runs, the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from faudit.figures.figure import of
from faudit.figures.plan import Plan
from faudit.figures.table import Table
from faudit.papers.claim import Between, Claim, Part, full_accuracy, full_error, judged, last
from faudit.papers.figure import Trajectories
from faudit.papers.page import page
from faudit.store.rows import Row
from tests.support.papers import CLAIMS, ERROR, PAPER, RECIPE, everything, put


def verdicts(runs: Path, plan: Plan | None = None) -> list[str]:
    return [entry["verdict"] for entry in judged(CLAIMS, Table(plan or RECIPE.plan(), runs))]


def test_numbers_that_agree_are_reproduced_and_the_page_says_how_they_were_judged(tmp_path: Path) -> None:
    everything(tmp_path)
    plan = RECIPE.plan()
    entries = judged(CLAIMS, Table(plan, tmp_path))
    assert [entry["verdict"] for entry in entries] == ["reproduced"] * 4
    json.dumps(entries, allow_nan=False)
    text = page(PAPER, entries, plan=plan, remarks=[])
    for words in (
        "| BP .900 [.900, .900] | 2/2 | ± .01 | reproduced |",
        "| error 10.00 % < 20.00 % < 30.00 % | 6/6 | in order (<) | reproduced |",
        "| DFA − BP 20.00 % [20.00 %, 20.00 %] | 2/2 | 15 to 25 pp | reproduced |",
        "| smallest epoch 2 | 2/2 | 1 to 2 epochs | reproduced |",
        "Published numbers: its log.",
    ):
        assert words in text, text


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"bp": 0.889}, ["deviates", "reproduced", "reproduced", "reproduced"]),
        ({"fa": 0.65}, ["reproduced", "deviates", "reproduced", "reproduced"]),
        ({"fa": 0.9}, ["reproduced", "deviates", "reproduced", "reproduced"]),  # a tie is no order
        ({"dfa": 0.76}, ["reproduced", "reproduced", "deviates", "reproduced"]),
        ({"dfa": 0.64}, ["reproduced", "reproduced", "deviates", "reproduced"]),
    ],
)
def test_each_kind_deviates_by_its_own_criterion(
    tmp_path: Path, changed: dict[str, float], expected: list[str]
) -> None:
    everything(tmp_path, changed)
    assert verdicts(tmp_path) == expected


def test_a_dip_outside_its_epochs_deviates(tmp_path: Path) -> None:
    for seed in (1, 2):
        put(tmp_path, "fa", 0.8, seed=seed, gamma=[[g] * 4 for g in (0.5, 0.3, 0.3, 0.1, 0.4)])
    assert verdicts(tmp_path)[3] == "deviates"


def test_fewer_seeds_or_epochs_than_asked_are_partial_whatever_the_numbers_say(tmp_path: Path) -> None:
    everything(tmp_path / "seeds", seeds=(1,))
    assert verdicts(tmp_path / "seeds") == ["partial"] * 4
    assert verdicts(tmp_path / "seeds", RECIPE.plan(seeds=(1,))) == ["partial"] * 4
    short = RECIPE.plan(epochs=3)
    for rule in ("bp", "fa", "dfa"):
        for seed in (1, 2):
            put(tmp_path / "epochs", rule, 0.1, seed=seed, plan=short)
    assert verdicts(tmp_path / "epochs", short) == ["partial"] * 4
    text = page(PAPER, judged(CLAIMS, Table(short, tmp_path / "epochs")), plan=short, remarks=[])
    assert "partial (asks 2 seeds, 4 epochs)" in text


def test_each_experiment_is_asked_for_its_own_seeds(tmp_path: Path) -> None:
    plan = replace(RECIPE, own_seeds={"bp": (1,)}).plan()
    put(tmp_path, "bp", 0.9)
    for rule, accuracy in (("fa", 0.8), ("dfa", 0.7)):
        put(tmp_path, rule, accuracy)
    assert verdicts(tmp_path, plan) == ["reproduced", "partial", "partial", "partial"], (
        "seed 2 of FA and DFA is missing"
    )
    everything(tmp_path / "all")
    entries = judged(CLAIMS, Table(plan, tmp_path / "all"))
    assert [entry["verdict"] for entry in entries] == ["reproduced"] * 4
    assert [(part["n"], part["expected"]) for entry in entries for part in entry["parts"]] == [
        (1, 1),
        (5, 5),
        (1, 1),
        (2, 2),
    ]
    assert len(entries[1]["commands"]) == 5
    assert [entry["parts"][0]["asked"]["seeds"] for entry in entries] == [[1], [1, 2], [1, 2], [2]]
    assert "asks 1 to 2 seeds, 4 epochs" in page(PAPER, judged(CLAIMS, Table(plan, tmp_path)), plan=plan, remarks=[])


def test_an_epoch_that_no_run_reached_is_told(tmp_path: Path) -> None:
    plan = RECIPE.plan(epochs=1)
    put(tmp_path, "bp", 0.9, plan=plan)
    entries = judged(CLAIMS, Table(plan, tmp_path))
    assert entries[0]["verdict"] == "partial" and "BP not reached" in page(PAPER, entries, plan=plan, remarks=[])


def test_one_missing_experiment_is_not_run_and_a_diverged_run_deviates(tmp_path: Path) -> None:
    assert verdicts(tmp_path) == ["not run"] * 4
    put(tmp_path, "bp", 0.9)
    put(tmp_path, "bp", 0.9, seed=2)
    assert verdicts(tmp_path) == ["reproduced", "not run", "not run", "not run"]
    everything(tmp_path / "all")
    path = tmp_path / "all" / RECIPE.plan().config("bp", 1).run_id
    (path / "done.json").rename(path / "failed.json")
    assert verdicts(tmp_path / "all") == ["deviates", "deviates", "deviates", "reproduced"]


def test_a_difference_is_taken_seed_by_seed(tmp_path: Path) -> None:
    for seed, bp, dfa in ((1, 0.9, 0.8), (2, 0.7, 0.5)):
        put(tmp_path, "bp", bp, seed=seed)
        put(tmp_path, "dfa", dfa, seed=seed)
    (part,) = judged(CLAIMS[2:3], Table(RECIPE.plan(), tmp_path))[0]["parts"]
    assert part["values"] == pytest.approx([10.0, 20.0]) and part["ours"] == pytest.approx(15.0)


def test_an_open_interval_has_one_edge(tmp_path: Path) -> None:
    everything(tmp_path)
    claim = Claim("x", "≥ 5", (Between("FA − BP", "fa", ERROR, "error", 5, math.inf, minus="bp"),))
    entries = judged([claim], Table(RECIPE.plan(), tmp_path))
    assert entries[0]["verdict"] == "reproduced" and "≥ 5 pp" in page(PAPER, entries, plan=RECIPE.plan(), remarks=[])


def test_the_accuracy_of_a_buffer_counts_only_if_it_is_the_whole_test_set() -> None:
    row = Row(epoch=1, test_acc=None, acc_eval=0.9, eval_samples=360, test_samples=360)
    assert full_accuracy(row) == 0.9 and full_error(row) == pytest.approx(10.0)
    assert full_accuracy(Row(row, eval_samples=100)) is None and full_error(Row(row, eval_samples=100)) is None
    assert full_accuracy(Row(row, eval_samples=100, test_acc=0.5)) == 0.5


def test_the_figure_shows_what_the_claims_read_and_the_published_points(tmp_path: Path) -> None:
    everything(tmp_path)
    figure = Trajectories([*CLAIMS, Claim("x", "", (Part("epoch", ("fa",), last(of("epoch")), "epoch", 4),))])
    assert figure.experiments == ("bp", "fa", "dfa")
    accuracy, error = figure.numbers(Table(RECIPE.plan(), tmp_path))["panels"]
    assert [one["experiment"] for one in accuracy["lines"]] == ["bp"] and accuracy["lines"][0]["epochs"] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert accuracy["points"] == [{"experiment": "bp", "epoch": 2, "value": 0.90, "tolerance": 0.01}]
    assert [(one["experiment"], one["epoch"], one["value"]) for one in error["points"]] == [
        ("bp", 4, 10), ("fa", 4, 20), ("dfa", 4, 30),
    ]  # fmt: skip
    assert error["lines"][2]["middle"][-1] == pytest.approx(30.0)
