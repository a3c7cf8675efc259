"""The committed logs hold what the README says of them: the published story, within stated ranges."""

from __future__ import annotations

import json
import math

import pytest
import torch

from faudit.audit.protocol import DEFAULT
from faudit.bench.protocol.cases import CASES, REPORT, SEEN, SET, largest_angle
from faudit.bench.protocol.confusion import document, page
from faudit.bench.protocol.networks import Task, cases_of, held
from faudit.config import RunConfig
from faudit.data import DATASETS
from faudit.experiment import prepare
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import judged
from faudit.papers.faeval import PAPER
from faudit.papers.reproduce import figures_of
from faudit.store.rows import growth
from faudit.store.run import Run, runs_in
from tests.support.paths import ROOT

EVIDENCE = ROOT / "evidence"
DIGITS = runs_in(EVIDENCE / "digits")
# Every paper with committed results → their folder.
COMMITTED = {
    name: folder
    for name in PAPERS
    for folder in (EVIDENCE / name, EVIDENCE / "papers" / name)
    if (folder / "claims.json").exists()
}
OF_PAPERS = [run for folder in COMMITTED.values() for run in runs_in(folder / "runs")]
TABLE = Table(PAPER.plan(), EVIDENCE / "faeval" / "runs")


def of(runs: list[Run], rule: str) -> list[Run]:
    chosen = [run for run in runs if run.config().label() == rule]
    assert chosen, f"no run of {rule}"
    return chosen


def largest_growth(run: Run) -> float:
    return max(growth(row["hidden_norms"]) or 0.0 for row in run.rows())


@pytest.mark.parametrize("run", [*DIGITS, *OF_PAPERS], ids=lambda run: run.name)
def test_every_log_is_whole(run: Run) -> None:
    config, rows = run.config(), run.rows()
    assert run.status == "done" and run.name == config.run_id
    assert [row["epoch"] for row in rows] == list(range(config.epochs + 1))
    outcome = run.outcome()
    assert outcome is not None and outcome["test_acc"] == rows[-1]["test_acc"]
    assert run.environment()["commit"] and not str(run.environment()["commit"]).endswith("+")


@pytest.mark.parametrize(
    ("rule", "low", "high", "smallest", "largest"),
    [
        ("bp", 0.60, 0.65, 150, 300),
        ("dfa", 0.27, 0.33, 1e8, math.inf),
        ("frozen-dfa", 0.33, 0.36, 0, math.inf),
        ("fa", 0.38, 0.42, 0, math.inf),
    ],
)
def test_cifar10_runs_land_where_the_paper_does(
    rule: str, low: float, high: float, smallest: float, largest: float
) -> None:
    series = TABLE.series(f"resmlp {rule}")
    assert len(series) == 3
    for one in series:
        last = one.rows[-1]
        assert low <= last["test_acc"] <= high and smallest < last["hidden_norms"][-1] < largest


def test_on_the_digits_dfa_explodes_and_bp_does_not() -> None:
    assert all(largest_growth(run) > 50 for run in of(DIGITS, "dfa"))
    assert all(largest_growth(run) < 5 for run in of(DIGITS, "bp"))
    assert {run.config().seed for run in of(DIGITS, "bp")} == {42, 123, 456}


def test_on_the_digits_trained_dfa_blocks_do_worse_than_frozen_ones() -> None:
    worst_frozen = min(run.rows()[-1]["test_acc"] for run in of(DIGITS, "frozen-dfa"))
    assert all(run.rows()[-1]["test_acc"] < worst_frozen for run in of(DIGITS, "dfa"))


def same(one: object, other: object) -> bool:
    """Whether two documents are the same but for the last digits, which another machine's logarithm may change."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_claims_are_what_the_logs_give(name: str) -> None:
    paper, folder = PAPERS[name], COMMITTED[name]
    committed = json.loads((folder / "claims.json").read_text())["claims"]
    for then, now in zip(committed, judged(paper.claims, Table(paper.plan(), folder / "runs")), strict=True):
        for entry in (then, now):
            entry.pop("commands")  # they name the folder they were called with
        assert same(then, now)


def test_of_the_claims_of_faeval_one_deviates_and_none_is_reproduced_from_shorter_runs() -> None:
    committed = json.loads((COMMITTED["faeval"] / "claims.json").read_text())["claims"]
    verdicts = [entry["verdict"] for entry in committed]
    assert verdicts.count("reproduced") >= 14 and verdicts.count("deviates") <= 1
    for entry in committed:
        shorter = any(part["shorter"] for part in entry["parts"])
        assert entry["verdict"] == "partial" if shorter else entry["verdict"] != "partial", entry["claim"]


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_figures_show_what_the_logs_give(name: str) -> None:
    paper, folder = PAPERS[name], COMMITTED[name]
    table = Table(paper.plan(), folder / "runs", partial=True)
    for stem, (_, figure) in figures_of(name, paper).items():
        committed, now = json.loads((folder / f"{stem}.json").read_text()), figure.numbers(table.again())
        assert same({key: committed[key] for key in now}, now), stem


PROTOCOL = EVIDENCE / "protocol"
of_this_benchmark = pytest.mark.skipif(
    json.loads((PROTOCOL / "confusion.json").read_text())["cases"] != len(CASES),
    reason="evidence/protocol holds an earlier list of cases: `faudit bench protocol` measures this one",
)


@of_this_benchmark
def test_the_protocols_table_is_what_its_rows_give_and_what_was_asked_of_it() -> None:
    """On either half: 95 % of the broken are caught, at most 2 % of the healthy flagged, and no other does better."""
    committed = json.loads((PROTOCOL / "confusion.json").read_text())
    seeds = committed["seeds"]
    result = document(cases_of(seeds, out=PROTOCOL / "rows.jsonl"), seeds=seeds, code=committed["code"])
    rows = held(PROTOCOL / "rows.jsonl").values()
    assert {entry["code"] for entry in rows} == {committed["code"]}, "all made by one version of the code"
    assert result == committed and page(result) == (PROTOCOL / "confusion.md").read_text()
    assert len(seeds) == 3 and committed["cases"] == len(CASES)
    assert not set(seeds) & {1, 7, 8, 9, 42, 123, 456}, "kinds were looked at with these"
    for part in (REPORT, SET):
        caught, flagged = (
            {name: column[part][side]["share"] for name, column in committed["columns"].items()}
            for side in ("broken", "healthy")
        )
        assert caught[DEFAULT] >= 0.95 and flagged[DEFAULT] <= 0.02, part
        for other in ("paper", "accuracy + Γ"):
            assert caught[DEFAULT] > caught[other] and flagged[DEFAULT] <= flagged[other], part
    verdicts = committed["verdicts"]
    assert all(verdicts[name]["faudit-2"] == verdicts[name]["faudit-1"] for name in SEEN)


@of_this_benchmark
def test_the_feedback_of_every_healthy_network_is_as_near_to_the_weights_as_its_label_says() -> None:
    """The label is by construction: the angles of the measured rows decide it, and no verdict."""
    committed = json.loads((PROTOCOL / "confusion.json").read_text())
    rows = {key: entry["row"] for key, entry in held(PROTOCOL / "rows.jsonl").items()}
    near = {name: case for name, case in CASES.items() if case.near}
    assert len(near) >= 6 and all(case.healthy for case in near.values())
    for name, case in near.items():
        shapes = feedback_shapes(case.config)
        for seed in committed["seeds"]:
            angles = rows[Task(name, case.config.with_(seed=seed)).key]["weight_angle"]
            assert len(angles) == len(shapes)
            for angle, shape in zip(angles, shapes, strict=True):
                assert angle < largest_angle(case.near, shape.numel()), (name, seed)


@of_this_benchmark
def test_feedback_that_learns_with_the_wrong_sign_points_against_the_weights_it_replaces() -> None:
    committed = json.loads((PROTOCOL / "confusion.json").read_text())
    rows = {key: entry["row"] for key, entry in held(PROTOCOL / "rows.jsonl").items()}
    for name in ("kolen-pollack, sign flipped", "dkp, sign flipped", "mirror, sign flipped"):
        for seed in committed["seeds"]:
            row = rows[Task(name, CASES[name].config.with_(seed=seed)).key]
            assert row["weight_angle"][-1] > 90.0, (name, seed)  # of the last hidden layer, taught through the head


def feedback_shapes(config: RunConfig) -> list[torch.Size]:
    """The shape of every feedback matrix that replaces a weight, in the order of the rows."""
    experiment = prepare(config, DATASETS["digits"](None))
    named = experiment.rule.forward_of(experiment.net, experiment.state.params)
    return [experiment.state.rule_state[name].shape for name in named]
