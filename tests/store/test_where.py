"""Runs are chosen by conditions with = != < <= > >=, by names, prefixes and patterns, and sorted by any of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.store.index import Overview, entries
from faudit.store.run import Run, run_named, runs_in, runs_named
from faudit.store.where import chosen, conditions, matches, named, ordered, settings_as_words, varying
from tests.support.fabricate import write

RUNS = [
    RunConfig(rule="bp", epochs=2, seed=1),
    RunConfig(rule="dfa", epochs=2, seed=1),
    RunConfig(rule="dfa", epochs=3, seed=2, penalty=0.01),
    RunConfig(rule="dfa", epochs=3, seed=3, penalty=0.1, no_residual=True),
    RunConfig(net="mlp", rule="fa-weights", epochs=3, seed=4, sizes=(8, 8)),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("where") / "runs"
    for config in RUNS[:4]:
        write(config, path)
    return path


def seeds(found: list[Overview]) -> list[int]:
    return [entry["config"]["seed"] for entry in found]


def entry_of(config: RunConfig, **results: object) -> Overview:
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in config.to_json().items()}
    blank = dict.fromkeys(("test_acc", "growth", "acc_eval", "loss_eval", "hidden_norm", "grad_norm", "seconds"))
    return {"run": f"runs/{config.run_id}", "status": "done", "config": settings, **blank, **results}


OVERVIEWS = [entry_of(config, test_acc=place / 10, growth=10.0**place) for place, config in enumerate(RUNS)]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["rule=dfa"], [1, 2, 3]),
        (["rule=dfa", "rule=bp"], [0, 1, 2, 3]),
        (["rule!=dfa"], [0, 4]),
        (["rule!=dfa", "rule!=bp"], [4]),
        (["seed>1"], [2, 3, 4]),
        (["seed>=2", "seed<4"], [2, 3]),
        (["seed<=1"], [0, 1]),
        (["penalty>0.01"], [3]),
        (["penalty=0.01", "penalty=0.1"], [2, 3]),
        (["penalty!=0.0"], [2, 3, 4]),  # fa-weights has no penalty, so it does not have this one
        (["penalty>=0"], [0, 1, 2, 3]),  # a range asks for runs that read the setting
        (["no-residual=true"], [3]),
        (["sizes=8,8"], [4]),
        (["test_acc>0.25"], [3, 4]),
        (["growth<100"], [0, 1]),
        (["status=done", "status!=failed"], [0, 1, 2, 3, 4]),
        ([" seed >= 4 "], [4]),
    ],
)
def test_a_condition_keeps_these_runs(words: list[str], kept: list[int]) -> None:
    found = [place for place, entry in enumerate(OVERVIEWS) if matches(entry, conditions(words))]
    assert found == kept


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("rul=dfa", "did you mean 'rule'"),
        ("rule<dfa", "rule: expected = or !=, since its values have no order, got <"),
        ("no-residual>=true", "expected = or !="),
        ("rule=dffa", "one of"),
        ("test_acc>high", "test_acc: expected a number, got 'high'"),
        ("test_acc>nan", "expected a number"),
        ("seed>one", "seed: expected a whole number"),
        ("status=finished", "unknown status"),
        ("dfa", "expected KEY=VALUE"),
    ],
)
def test_a_wrong_condition_is_one_line(word: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        conditions([word])
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_value_that_is_not_declared_is_valid_if_a_run_has_it() -> None:
    own = entry_of(RUNS[0])
    own["config"] = {**own["config"], "rule": "my-dfa", "own-gain": "2"}
    found = [*OVERVIEWS, own]
    assert chosen(found, ["rule=my-dfa"], store="runs") == [own] == chosen(found, ["own-gain=2"], store="runs")
    assert len(chosen(found, ["rule!=my-dfa"], store="runs")) == 5
    with pytest.raises(ConfigError, match="one of"):
        conditions(["rule=my-dfaa"], found)


def test_an_overflow_is_larger_than_every_number_and_nan_is_in_no_range() -> None:
    infinite, lost = entry_of(RUNS[0], growth="inf"), entry_of(RUNS[0], growth="nan")
    assert matches(infinite, conditions(["growth>1e300"])) and not matches(infinite, conditions(["growth<1e300"]))
    assert not matches(lost, conditions(["growth>0"])) and not matches(lost, conditions(["growth<=0"]))


def test_words_choose_by_condition_and_by_name(store: Path) -> None:
    found, _ = entries(store)
    name = RUNS[2].run_id
    assert seeds(chosen(found, [name], store="runs")) == [2]
    assert seeds(chosen(found, ["resmlp-dfa-*", "seed>1"], store="runs")) == [2, 3]
    assert seeds(chosen(found, [name, "resmlp-bp"], store="runs")) == [1, 2]
    with pytest.raises(StoreError, match="unknown run 'resmlp-dfx'"):
        chosen(found, ["resmlp-dfx"], store="runs")


def test_a_prefix_is_a_run_if_only_one_has_it_and_else_the_matches_are_told(store: Path) -> None:
    assert run_named("resmlp-bp", store) == Run(store / RUNS[0].run_id) == run_named(RUNS[0].run_id, store)
    assert run_named("*-s3-*", store).name == RUNS[3].run_id
    with pytest.raises(StoreError) as caught:
        run_named("resmlp-dfa", store)
    told = str(caught.value)
    assert "3 runs" in told and all(config.run_id in told for config in RUNS[1:4]) and "\n" not in told
    assert [run.name for run in runs_named("resmlp-dfa*", store)] == sorted(config.run_id for config in RUNS[1:4])
    for name in ("", "nothing", "[x"):
        with pytest.raises(StoreError, match="unknown run"):
            run_named(name, store)


def test_a_whole_name_wins_over_its_longer_brothers(tmp_path: Path) -> None:
    for name in ("fine", "fine-too"):
        os.rename(write(RunConfig(epochs=1), tmp_path).path, tmp_path / name)
    assert run_named("fine", tmp_path).name == "fine" and len(runs_named("fin", tmp_path)) == 2


def test_runs_in_takes_a_string(store: Path) -> None:
    assert runs_in(str(store)) == runs_in(store) != []


def test_runs_are_sorted_by_any_key_and_those_without_a_value_come_last() -> None:
    lost = entry_of(RunConfig(rule="bp", epochs=1, seed=9), test_acc=None)
    found = [OVERVIEWS[2], lost, OVERVIEWS[0], OVERVIEWS[4]]
    assert seeds(ordered(found, "test_acc", largest_first=False)) == [1, 2, 4, 9]
    assert seeds(ordered(found, "test_acc", largest_first=True)) == [4, 2, 1, 9]
    assert seeds(ordered(found, "seed", largest_first=True)) == [9, 4, 2, 1]
    assert seeds(ordered(found, "penalty", largest_first=True))[-1] == 4
    assert [named(entry) for entry in ordered(found, "run", largest_first=False)] == sorted(map(named, found))
    with pytest.raises(ConfigError, match="--sort unknown key 'test_ac', did you mean 'test_acc'"):
        ordered(found, "test_ac", largest_first=False)


def test_what_varies_is_what_differs_between_runs_that_read_it() -> None:
    assert varying(OVERVIEWS[:2]) == {"rule": ["bp", "dfa"]}
    found = varying(OVERVIEWS[1:4], besides=["seed"])
    assert found == {"epochs": [2, 3], "penalty": [0.0, 0.01, 0.1], "no-residual": [False, True]}
    assert "sizes" not in varying(OVERVIEWS), "one run alone reads it"


def test_settings_of_python_are_the_words_of_the_shell() -> None:
    words = settings_as_words({"rule": ["dfa", "fa"], "batch_size": 32, "no_residual": True, "test_acc": 0.5})
    assert words == ["rule=dfa", "rule=fa", "batch-size=32", "no-residual=true", "test_acc=0.5"]
