"""Reporting strategies, thresholds over a grid, and methods over seeds: by hand, then through the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from faudit import RunConfig
from faudit.audit.checks.check import Case
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.method import methods
from faudit.audit.page import measured, method_table
from faudit.audit.protocol import PROTOCOLS
from faudit.audit.strategies import over_thresholds, side_by_side, strategies
from faudit.cli.main import main
from faudit.store.rows import Row
from tests.support import fabricate
from tests.support.cases import case

OURS, PAPER = PROTOCOLS["faudit-1"], PROTOCOLS["paper"]


def test_accuracy_alone_asks_for_more_than_chance() -> None:
    said = strategies(OURS)["accuracy"]
    assert said(case(test_acc=0.9)) == TRUSTWORTHY
    assert said(case(test_acc=0.10)) == said(case(test_acc=0.115)) == WALK_BACK  # 95 % of 1000 samples: ± 2 points
    assert said(case(test_acc=None, acc_eval=None)) == INCONCLUSIVE


def test_accuracy_and_gamma_is_fooled_by_the_first_block_and_a_check_is_not() -> None:
    fooled = case(gamma=[0.9, 0.0, 0.0, 0.0])
    named = strategies(OURS)
    assert named["accuracy + Γ"](fooled) == TRUSTWORTHY and named["null alone"](fooled) == WALK_BACK
    assert named["accuracy + Γ"](case(gamma=[0.1, 0.0, 0.0, 0.0])) == WALK_BACK
    assert named["accuracy + Γ"](case(gamma=[None] * 4)) == INCONCLUSIVE
    assert named["accuracy + Γ"](case(test_acc=0.1)) == WALK_BACK


def test_the_strategies_are_every_check_alone_and_the_protocol() -> None:
    for protocol in PROTOCOLS.values():
        alone = [f"{check.name} alone" for check in protocol.checks]
        assert list(strategies(protocol)) == ["accuracy", "accuracy + Γ", *alone, protocol.name]
    assert list(side_by_side()) == ["faudit-4", "faudit-3", "faudit-2", "faudit-1", "paper", "accuracy + Γ"]
    broken = case(hidden_norms=[1.0, 60.0, 60.0, 60.0, 60.0])
    said = {name: strategy(broken) for name, strategy in strategies(OURS).items()}
    assert [name for name, word in said.items() if word == WALK_BACK] == ["scale alone", "faudit-1"]


def test_every_grid_of_a_protocol_is_asked_and_holds_where_its_threshold_stands() -> None:
    for protocol in PROTOCOLS.values():
        asked: dict[tuple[str, str], set[float]] = {}
        for check, name, value, _ in over_thresholds([case()], protocol):
            asked.setdefault((check.name, name), set()).add(value)
        assert asked == {
            (check.name, name): set(grid) for check in protocol.checks for name, grid in check.grid.items()
        }
        assert all(getattr(protocol[check], name) in values for (check, name), values in asked.items())


def test_a_verdict_changes_where_its_value_is_passed() -> None:
    grown = case(hidden_norms=[1.0, 30.0, 30.0, 30.0, 30.0])
    said = {value: verdicts[0] for _, name, value, verdicts in over_thresholds([grown], OURS) if name == "growth"}
    assert {value for value, word in said.items() if word == WALK_BACK} == {5, 12, 25}


def judged(seed: int, **entries: Any) -> tuple[RunConfig, Any]:
    one = case(**entries)
    return RunConfig(rule="dfa", seed=seed), judge(Case(one.config, one.rows, one.samples, 10, one.frozen), OURS)


def test_a_method_is_judged_over_its_seeds_with_an_interval_by_hand() -> None:
    grown = {1: 2.0, 2: 3.0, 3: 70.0}
    runs = [judged(seed, hidden_norms=[1.0, value, value, value, value]) for seed, value in grown.items()]
    (method,) = methods(runs)
    scale = method.checks[0]
    assert method.seeds == (1, 2, 3) and method.verdict == WALK_BACK and (scale.check, scale.fired) == ("scale", 1)
    half = 4.302652729749461 * math.sqrt(((2 - 25) ** 2 + (3 - 25) ** 2 + (70 - 25) ** 2) / 2) / math.sqrt(3)
    assert scale.mean == pytest.approx(25) and scale.high == pytest.approx(25 + half)
    assert [one.verdict for one in methods(runs[:2])] == [TRUSTWORTHY]
    assert len(methods([*runs, (RunConfig(rule="dfa", seed=1, epochs=7), runs[0][1])])) == 2
    assert methods(runs[:1])[0].checks[0].low is None
    assert scale.low == 0.0, "a growth is not negative"
    wild = [judged(seed, stability=0.1, precision_agree=[value] * 5) for seed, value in ((1, 0.2), (2, 0.99))]
    (told,) = (line for line in method_table(methods(wild)[0]) if line[0] == "reference")
    assert told == ["reference", "1 of 2", "0.595", "too few seeds for an interval", "0.95"]
    inconclusive = judged(4, block_turn=None)
    assert methods([*runs[:2], inconclusive])[0].verdict == INCONCLUSIVE


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for seed in (1, 2):
        for rule in ("bp", "frozen-bp"):
            fabricate.write(RunConfig(rule=rule, seed=seed, epochs=2, width=8), tmp_path)
    return tmp_path


def test_the_command_tells_strategies_thresholds_and_methods(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = store / "audit.md"
    words = ["audit", "--runs", str(store), "--utility", "--sensitivity", "--protocol", "paper"]
    code = main([*words, "--json", "--markdown", str(page)])
    result = json.loads(capsys.readouterr().out)
    assert code in (0, 1, 3) and len(result["runs"]) == len(result["utility"]) == 4
    assert [len(method["seeds"]) for method in result["methods"]] == [2, 2]
    assert set(result["sensitivity"]) == {"growth", "floor", "points"}
    text = page.read_text()
    for title in (
        "What each reporting strategy would have concluded",
        "Had a threshold stood elsewhere",
        "over seeds 1, 2",
    ):
        assert title in text
    assert main(words) == code
    said = capsys.readouterr().out
    assert "walked back of 4" in said and "✓ trustworthy" in said and "stands at" in said


def test_the_page_shows_both_definitions_beside_null_and_controls() -> None:
    row = Row(gamma=[0.5, 0.1, 0.3], rho=[0.5, None, 0.2], rho_study=[0.4, 0.05, 0.15], gamma_null_mean=[0.0] * 3)
    (table,) = measured(row, about="x")
    assert table.markdown() == [
        "| block | 0 | 1 | 2 | mean of 1 … |",
        "| --- | --- | --- | --- | --- |",
        "| Γ | +0.500 | +0.100 | +0.300 | +0.200 |",
        "| Γ, fresh feedback | +0.000 | +0.000 | +0.000 | +0.000 |",
        "| ρ | +0.500 | – | +0.200 | – |",
        "| ρ of the paper | +0.400 | +0.050 | +0.150 | +0.100 |",
    ]
    assert measured(Row(epoch=0), about="x") == []


def test_nothing_to_audit_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["audit"], "expected RUN names"),
        (["audit", "--utility", "--runs", str(tmp_path)], "got none in"),
        (["audit", "--model", "a:b", "--utility"], "cannot be combined with runs"),
        (["bench", "protocol", "--jobs", "0"], "--jobs: expected at least 1"),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert told in said and len(said.splitlines()) == 1
