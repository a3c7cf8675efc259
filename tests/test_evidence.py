"""The committed logs hold what the README says of them: the published story, within stated ranges."""

from __future__ import annotations

import json
import math

import pytest

from faudit.bench.protocol.confusion import document, page
from faudit.bench.protocol.networks import cases_of, held
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


def test_of_the_claims_of_faeval_at_least_fifteen_are_reproduced() -> None:
    committed = json.loads((COMMITTED["faeval"] / "claims.json").read_text())["claims"]
    assert [entry["verdict"] for entry in committed].count("reproduced") >= 15


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_figures_show_what_the_logs_give(name: str) -> None:
    paper, folder = PAPERS[name], COMMITTED[name]
    table = Table(paper.plan(), folder / "runs", partial=True)
    for stem, (_, figure) in figures_of(name, paper).items():
        committed, now = json.loads((folder / f"{stem}.json").read_text()), figure.numbers(table.again())
        assert same({key: committed[key] for key in now}, now), stem


PROTOCOL = EVIDENCE / "protocol"


def test_the_protocols_table_is_what_its_rows_give_and_what_was_asked_of_it() -> None:
    """At least 95 % of the broken caught, at most 2 % of the healthy flagged, and better than both others."""
    committed = json.loads((PROTOCOL / "confusion.json").read_text())
    seeds = committed["seeds"]
    result = document(cases_of(seeds, out=PROTOCOL / "rows.jsonl"), seeds=seeds, code=committed["code"])
    rows = held(PROTOCOL / "rows.jsonl").values()
    assert {entry["code"] for entry in rows} == {committed["code"]}, "all made by one version of the code"
    assert result == committed and page(result) == (PROTOCOL / "confusion.md").read_text()
    assert len(seeds) == 3 and committed["cases"] >= 24
    assert not set(seeds) & {1, 42, 123, 456}, "thresholds were set on these"
    caught, flagged = (
        {name: column[side]["share"] for name, column in committed["columns"].items()} for side in ("broken", "healthy")
    )
    for ours in ("faudit-2", "faudit-1"):
        assert caught[ours] >= 0.95 and flagged[ours] <= 0.02
        for other in ("paper", "accuracy + Γ"):
            assert caught[ours] > caught[other] and flagged[ours] <= flagged[other]
    assert all(verdicts["faudit-2"] == verdicts["faudit-1"] for verdicts in committed["verdicts"].values())
