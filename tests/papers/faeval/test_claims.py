"""The claims: each is measured from rows and judged by a fixed tolerance, and missing runs are reported."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from faudit.figures.figure import of
from faudit.figures.plan import Plan
from faudit.figures.table import Table
from faudit.papers.claim import at_epoch, fires, judged
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.claims import CLAIMS, EVERY_BP, floor_fires, scale_fires
from faudit.papers.page import page
from faudit.papers.reproduce import experiments_of
from faudit.store.rows import Row, to_line
from tests.support import fabricate

PLAN = PAPER.plan(seeds=(42, 123, 456))


def with_rows(runs: Path, experiment: str, *, seed: int = 42, plan: Plan = PLAN, **entries: object) -> None:
    """A run of an experiment whose every row has these entries."""
    run = fabricate.write(plan.config(experiment, seed), runs)
    run.rows_file.write_text("".join(to_line({**row, **entries}) for row in run.rows()))


def entry(runs: Path, number: int, plan: Plan = PLAN) -> dict[str, object]:
    return judged(CLAIMS, Table(plan, runs))[number - 1]


def shown(plan: Plan, runs: Path) -> str:
    """The page of all claims."""
    return page(PAPER, judged(CLAIMS, Table(plan, runs)), plan=plan, remarks=[])


def test_there_are_seventeen_and_every_experiment_they_name_can_be_run() -> None:
    assert len(CLAIMS) == 17
    for experiment in experiments_of("claims", PAPER):
        assert PLAN.config(experiment).epochs in (30, 80, 100)


def test_first_fire_is_the_first_epoch_past_the_threshold_and_never_is_infinite() -> None:
    def row(epoch: int, growth: float, gradient: float) -> Row:
        return Row(epoch=epoch, hidden_norms=[1.0, growth], grad_norms=[1.0, gradient])

    rows = [row(0, 2.0, 1.0), row(1, 50.0, 1e-4), row(2, 50.1, 0.99e-4), row(3, 1.0, 1.0)]
    assert fires(scale_fires)(rows) == 2 and fires(floor_fires)(rows) == 2
    assert fires(scale_fires)(rows[:2]) == math.inf
    assert at_epoch(1, of("epoch"))(rows) == 1 and at_epoch(9, of("epoch"))(rows) is None


def test_a_claim_is_reproduced_deviates_or_was_not_run(tmp_path: Path) -> None:
    assert entry(tmp_path, 1)["verdict"] == "not run"
    for seed, accuracy in ((42, 0.61), (123, 0.62), (456, 0.62)):
        with_rows(tmp_path, "resmlp bp", seed=seed, test_acc=accuracy)
    first = entry(tmp_path, 1)
    assert first["verdict"] == "reproduced" and first["parts"][0]["n"] == 3  # type: ignore[index]
    for seed in PLAN.seeds:
        with_rows(tmp_path, "resmlp dfa", seed=seed, test_acc=0.5)
    assert entry(tmp_path, 3)["verdict"] == "deviates"


def test_one_part_that_was_not_run_leaves_the_claim_open_unless_another_deviates(tmp_path: Path) -> None:
    for seed in PLAN.seeds:
        with_rows(tmp_path, "matched bp", seed=seed, test_acc=0.585)
        with_rows(tmp_path, "matched dfa", seed=seed, test_acc=0.9)
    assert entry(tmp_path, 8)["verdict"] == "not run" and entry(tmp_path, 9)["verdict"] == "deviates"


def test_that_no_bp_run_fires_takes_a_run_of_every_net_and_one_that_fires_breaks_it(tmp_path: Path) -> None:
    calm: dict[str, Any] = {"hidden_norms": [1.0, 2.0, 3.0, 4.0, 5.0], "grad_norms": [1.0] * 5}
    for experiment in ("resmlp bp", "noln bp", "vit bp", "matched bp"):
        with_rows(tmp_path, experiment, **calm)
    assert entry(tmp_path, 16)["verdict"] == "not run"
    with_rows(tmp_path, "student bp", **calm)
    assert entry(tmp_path, 16)["verdict"] == "partial"
    for experiment in EVERY_BP:
        for seed in PLAN.seeds:
            with_rows(tmp_path / "all", experiment, seed=seed, **calm)
    assert entry(tmp_path / "all", 16)["verdict"] == "reproduced"
    with_rows(tmp_path, "student bp", seed=123, **{**calm, "grad_norms": [1.0, 1.0, 1.0, 1.0, 5e-5]})
    assert entry(tmp_path, 16)["verdict"] == "deviates"


def test_a_claim_from_shorter_runs_is_partial_even_where_its_number_agrees_or_not(tmp_path: Path) -> None:
    short = PAPER.plan(epochs=10)
    calm: dict[str, Any] = {"hidden_norms": [1.0, 2.0, 3.0, 4.0, 5.0], "grad_norms": [1.0] * 5}
    for experiment in EVERY_BP:
        for seed in PLAN.seeds:
            with_rows(tmp_path, experiment, seed=seed, plan=short if experiment == "vit bp" else PLAN, **calm)
    with_rows(tmp_path, "vit dfa", plan=short, test_acc=0.5, **calm)
    assert entry(tmp_path, 16)["verdict"] == entry(tmp_path, 15)["verdict"] == "partial"
    text = shown(PLAN, tmp_path)
    assert "partial (asks 3 seeds, 30 to 100 epochs)" in text and "partial (asks 1 seed, 100 epochs)" in text


def test_a_shorter_unfinished_or_imported_run_is_no_run_of_a_claim(tmp_path: Path) -> None:
    fabricate.write(PLAN.config("matched bp", 42), tmp_path)  # 30 epochs: the same settings as the main BP run
    fabricate.write(PLAN.config("resmlp bp", 123), tmp_path, until=99)
    own = fabricate.write(PLAN.config("resmlp bp", 456), tmp_path)
    own.path.rename(tmp_path / f"imported-{own.name}")
    assert entry(tmp_path, 1)["verdict"] == "not run"


def test_a_run_that_diverged_is_told_and_is_no_agreement(tmp_path: Path) -> None:
    for seed in PLAN.seeds:
        with_rows(tmp_path, "resmlp bp", seed=seed, test_acc=0.615)
    path = tmp_path / PLAN.config("resmlp bp", 42).run_id
    (path / "done.json").rename(path / "failed.json")
    first = entry(tmp_path, 1)
    assert first["verdict"] == "deviates" and first["parts"][0]["diverged"] == 1  # type: ignore[index]
    assert "1 diverged" in shown(PLAN, tmp_path)


def test_numbers_that_overflowed_are_null_in_the_json(tmp_path: Path) -> None:
    for seed in PLAN.seeds:
        with_rows(
            tmp_path, "resmlp bp", seed=seed, hidden_norms=[1.0, 1.0, 1.0, 1.0, math.inf], grad_norms=[math.nan] * 5
        )
    json.dumps(judged(CLAIMS, Table(PLAN, tmp_path)), allow_nan=False)
    assert entry(tmp_path, 2)["verdict"] == "deviates"


def test_gradients_are_held_against_the_paper_in_its_unit(tmp_path: Path) -> None:
    for seed in PLAN.seeds:
        with_rows(tmp_path, "resmlp bp", seed=seed, hidden_norms=[1.0, 1.0, 1.0, 1.0, 200.0], grad_norms=[0.04] * 5)
    part = entry(tmp_path, 2)["parts"][1]  # type: ignore[index]
    assert part["ours"] == pytest.approx(0.04 / 1024) and part["verdict"] == "reproduced"


def test_the_page_and_its_json_hold_every_claim_and_mark_a_rehearsal(tmp_path: Path) -> None:
    plan = PAPER.plan("digits", epochs=2)
    fabricate.all_runs(plan, tmp_path)
    table = Table(plan, tmp_path)
    entries = judged(CLAIMS, table)
    text = page(PAPER, entries, plan=plan, remarks=table.remarks)
    json.dumps(entries, allow_nan=False)
    assert "A rehearsal" in text and text.count("(rehearsal) |") == 17 and "not run |" not in text
    for claim in CLAIMS:
        assert claim.name in text and claim.published in text
    assert "faudit train --net resmlp --rule bp --data digits --epochs 2 --seed 123" in text
    assert "rehearsal" not in shown(PAPER.plan(), tmp_path)


def test_a_never_claim_prints_when_it_fired(tmp_path: Path) -> None:
    for experiment in EVERY_BP:
        with_rows(tmp_path, experiment, grad_norms=[1.0] * 5)
    with_rows(tmp_path, "resmlp bp", seed=123, grad_norms=[1e-9] * 5)
    assert f"epoch 0, never in {len(EVERY_BP)} of {len(EVERY_BP) + 1}" in shown(PLAN, tmp_path)
