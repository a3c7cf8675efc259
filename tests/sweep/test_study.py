"""A study file gives the runs it describes. One error lists all its problems before anything starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from faudit.audit.audit import control_of
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.sweep import STUDIES
from faudit.sweep.check import refuse
from faudit.sweep.study import read, read_study, study_of


def study(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def told(document: dict[str, Any], **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        study_of(document, options.pop("overrides", {}), where="s.toml", **options)
    return str(caught.value).splitlines()


def runs_of(document: dict[str, Any], **options: Any) -> list[RunConfig]:
    return study_of(document, {}, where="", **options).runs


def test_a_grid_is_every_combination_over_the_shared_settings(tmp_path: Path) -> None:
    text = 'batch-size = 64\n[grid]\nrule = ["bp", "dfa"]\npenalty = [0, 1e-2]\nseed = [1, 2]\n'
    wanted = [
        RunConfig(batch_size=64, rule=rule, penalty=penalty, seed=seed)
        for rule in ("bp", "dfa")
        for penalty in (0.0, 1e-2)
        for seed in (1, 2)
    ]
    assert read(study(text, tmp_path)) == wanted
    assert read(study(text, tmp_path), {"threads": "2"}) == [config.with_(threads=2) for config in wanted]


def test_excludes_take_out_of_the_grid_and_includes_add(tmp_path: Path) -> None:
    text = """
    epochs = 5
    [grid]
    rule = ["bp", "dfa"]
    penalty = [0, 1e-4, 1e-2]
    [[exclude]]
    rule = "bp"
    penalty = [1e-4, 1e-2]
    [[include]]
    rule = "fa"
    epochs = 7
    [include.grid]
    seed = [1, 2]
    keep-epochs = [[], [1, 3]]
    """
    base = RunConfig(epochs=5)
    found = read(study(text, tmp_path))
    assert found[:4] == [base, *(base.with_(rule="dfa", penalty=value) for value in (0, 1e-4, 1e-2))]
    more = base.with_(rule="fa", epochs=7)
    assert found[4:] == [more.with_(seed=seed, keep_epochs=kept) for seed in (1, 2) for kept in ((), (1, 3))]


def test_a_study_without_a_grid_is_one_run_or_its_includes() -> None:
    assert runs_of({"rule": "fa"}) == [RunConfig(rule="fa")]
    assert runs_of({"rule": "fa", "include": [{"seed": 3}]}) == [RunConfig(rule="fa", seed=3)]


def test_controls_are_the_audits_and_each_is_there_once() -> None:
    grid = {"rule": ["bp", "dfa", "fa"], "penalty": [0, 0.1], "seed": [1, 2]}
    found = runs_of({"with": ["matched"], "grid": grid})
    runs, controls = found[:12], found[12:]
    assert {config.run_id for config in controls} == {control_of(config).run_id for config in runs}
    assert len(controls) == 6 and {config.rule for config in controls} == {"frozen-bp", "frozen-dfa", "frozen-fa"}
    named = runs_of({"with": ["frozen-dfa"], "grid": grid})[12:]
    assert [config.rule for config in named] == ["frozen-dfa"] * 2
    already = runs_of({"with": ["frozen-dfa"], "grid": {"rule": ["dfa", "frozen-dfa"]}})
    assert len(already) == 2


def test_every_problem_is_told_at_once_with_its_place_and_the_nearest_valid_key() -> None:
    document = {
        "net": "resnlp",
        "bath-size": 3,
        "with": ["frozen-dfaa"],
        "grid": {"rule": ["bp", "dfaa"], "sead": [1], "lr": [], "seed": [1, 2, 1], "penalty": 3, "keep-epochs": [1]},
        "include": [{"seed": 1}, {"epochs": 0, "grid": {"widht": [3]}}],
        "exclude": [{}],
    }
    lines = told(document)
    for place, expected in [
        ("net: ", "did you mean 'resmlp'?"),
        ("unknown setting 'bath-size'", "did you mean 'batch-size'?"),
        ("with: ", "did you mean 'frozen-dfa'?"),
        ("[grid] rule: ", "got 'dfaa'"),
        ("[grid] unknown setting 'sead'", "did you mean 'seed'?"),
        ("[grid] lr: ", "at least one value, got []"),
        ("[grid] seed: ", "each value once, got 1 twice"),
        ("[grid] penalty: ", "expected a list"),
        ("[grid] keep-epochs: ", "a list of lists of epochs"),
        ("[[include]] 2 epochs: ", "got 0"),
        ("[[include]] 2 grid unknown setting 'widht'", "did you mean 'width'?"),
        ("[[exclude]] 1 is empty", ""),
    ]:
        assert any(line.startswith(place) and expected in line for line in lines), (place, lines)
    assert len(lines) == 12 and all(line.endswith("(s.toml)") for line in lines)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"grid": {}}, "[grid] is empty"),
        ({"grid": {"seed": []}}, "at least one value"),
        ({"grid": 3}, "expected a table of settings, got 3"),
        ({}, "the study is empty: expected settings, a [grid] or an [[include]]"),
        ({"with": ["matched"]}, "the study is empty"),
        ({"include": {"seed": 1}}, "expected at least one table headed [[include]], got {'seed': 1}"),
        ({"rule": "fa", "include": []}, "include: expected at least one table headed [[include]], got []"),
        ({"grid": {"seed": [1]}, "exclude": []}, "exclude: expected at least one table headed [[exclude]], got []"),
        ({"seed": 1, "grid": {"seed": [1, 2]}}, "[grid] seed: also set outside the grid, as 1"),
        ({"include": [{"seed": 1, "grid": {"seed": [2]}}]}, "[[include]] 1 grid seed: also set outside"),
        ({"grid": {"rule": ["bp"]}, "exclude": [{"rule": "bp"}]}, "the study has no runs"),
        ({"grid": {"rule": ["bp"]}, "exclude": [{"rule": "fa"}]}, "[[exclude]] 1: matches no run of the grid"),
        ({"rule": "bp", "exclude": [{"rule": "bp"}]}, "expected a [grid] to exclude runs from"),
        ({"grid": {"seed": [42]}, "include": [{"rule": "bp"}]}, "occurs twice"),
        ({"grid": {"penalty": [0, 0.0]}}, "each value once"),
        ({"epochs": 2, "keep-epochs": [3], "grid": {"seed": [1, 2]}}, "up to the last, 2, got 3 (in 2 runs)"),
        ({"rule": "bp", "with": "frozen-dfa"}, "with: expected a list"),
    ],
)
def test_empty_duplicated_and_contradictory_grids_are_refused(document: dict[str, Any], expected: str) -> None:
    lines = told(document)
    assert len(lines) == 1 and expected in lines[0] and lines[0].endswith("(s.toml)")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"rule": "dfa", "beta": 0.5}, "beta: no run reads it"),  # the default of ep
        ({"rule": "dfa", "beta": 0.7}, "beta: no run reads it"),
        ({"beta": 0.5, "grid": {"rule": ["bp", "dfa"]}}, "beta: no run reads it"),
        ({"rule": "dfa", "grid": {"beta": [0.5]}}, "[grid] beta: no run reads it"),
        ({"include": [{"rule": "dfa", "clip": 1.0}, {"rule": "bp", "clip": 1.0}]}, "[[include]] 2 clip: no run reads"),
        ({"include": [{"rule": "dfa", "grid": {"beta": [0.5]}}]}, "[[include]] 1 grid beta: no run reads it"),
        ({"net": "resmlp", "patch": 4}, "patch: no run reads it"),
        (
            {"clip": 1.0, "grid": {"rule": ["bp", "dfa"]}, "exclude": [{"rule": "dfa"}]},
            "clip: no run reads it",
        ),
    ],
)
def test_a_setting_that_no_run_reads_is_refused_at_any_value(document: dict[str, Any], expected: str) -> None:
    (line,) = told(document)
    assert line.startswith(expected) and "leave it out" in line and line.endswith("(s.toml)")


def test_a_flag_that_no_run_of_the_study_reads_is_refused() -> None:
    document = {"include": [{"rule": "bp"}, {"rule": "dfa"}]}
    assert len(study_of(document, {"clip": "1.0"}, where="s.toml").runs) == 2
    assert told(document, overrides={"beta": "0.5"})[0].startswith("beta: no run reads it")


def test_a_shared_setting_is_for_the_runs_that_read_it() -> None:
    """A default of one rule beside rules without the setting is no contradiction, and names the same runs."""
    for document in (
        {"clip": 1.0, "grid": {"rule": ["bp", "dfa"]}},
        {"clip": 1.0, "include": [{"rule": "bp"}, {"rule": "dfa"}]},
        {"grid": {"rule": ["bp", "dfa"], "clip": [1.0]}},
    ):
        assert runs_of(document) == [RunConfig(rule="bp"), RunConfig(rule="dfa")]


def test_a_flag_against_the_grid_is_a_contradiction() -> None:
    assert "[grid] threads: also set outside" in told({"grid": {"threads": [1, 2]}}, overrides={"threads": "2"})[0]


def test_a_billion_runs_are_counted_and_refused_not_enumerated() -> None:
    axis = list(range(1, 1001))
    document: dict[str, Any] = {"grid": {"seed": axis, "lr": axis, "penalty": axis}}
    started = time.monotonic()
    (line,) = told(document)
    assert "1,000,000,000 runs" in line and "--max-runs 1000000000" in line
    assert time.monotonic() - started < 5
    small = {"grid": {"seed": [1, 2, 3]}}
    assert "3 runs" in told(small, limit=2)[0] and len(runs_of(small, limit=3)) == 3


@pytest.mark.parametrize("text", ["grid = [", "\x00", "[grid]\nseed = [1, 2"])
def test_what_is_not_toml_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is not TOML") as caught:
        read(study(text, tmp_path))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000], ids=["decimal", "hexadecimal"])
@pytest.mark.parametrize(
    "text",
    [
        "seed = N", "rule = N", "lr = N", "keep-epochs = [N]", "grid = N", "seed = 1\nwith = N", "seed = 1\nwith = [N]",
        "seed = 1\ninclude = N", "[grid]\nseed = N", "[grid]\nseed = [N]", "[grid]\nseed = [1]\n[[exclude]]\nseed = N",
        "[grid]\nseed = [1]\n[[include]]\nseed = 2\ngrid = N",
    ],
)  # fmt: skip
def test_numbers_of_thousands_of_digits_are_refused_in_a_line(tmp_path: Path, text: str, number: str) -> None:
    text = text.replace("N", number)
    with pytest.raises(ConfigError) as caught:
        read(study(text, tmp_path))
    (line,) = str(caught.value).splitlines()
    assert line.endswith("study.toml)") or "is not TOML" in line
    assert ("got a number of thousands of digits" in line or "limit (4300" in line) and len(line) < 400


def test_a_missing_file_names_the_nearest_built_in() -> None:
    with pytest.raises(ConfigError, match="did you mean 'penalties'"):
        read(Path("penaltiez"))
    with pytest.raises(ConfigError, match=r"Give an existing file\. Built-in studies: faeval"):
        read(Path("study.toml"))


def test_the_built_in_studies_are_whole() -> None:
    for name in STUDIES:
        assert STUDIES[name].exists() and len(STUDIES.summary(name)) > 20
        refuse(read(Path(name)), data_dir=None, elsewhere=True)
    assert len(read(Path("penalties"))) == 48 and len(read(Path("faeval"))) == 63


def test_a_name_stands_for_the_runs_of_all_seeds(tmp_path: Path) -> None:
    text = """
    name = "{rule}, λ={penalty:g}, {batch-size}"
    with = ["matched"]
    [grid]
    penalty = [0, 1e-2]
    seed = [1, 2]
    [[include]]
    name = "{{long}}"
    epochs = 200
    [[include]]
    penalty = 0.5
    """
    found = read_study(study(text, tmp_path))
    base = RunConfig()
    assert found.experiments == {
        "bp, λ=0, 128": [base.with_(seed=seed) for seed in (1, 2)],
        "bp, λ=0.01, 128": [base.with_(penalty=1e-2, seed=seed) for seed in (1, 2)],
        "{long}": [base.with_(epochs=200)],
        "bp, λ=0.5, 128": [base.with_(penalty=0.5)],
    }
    assert found.runs[:6] == [run for runs in found.experiments.values() for run in runs]
    assert {run.rule for run in found.runs[6:]} == {"frozen-bp"}, "controls have no name"


def test_a_study_without_names_has_no_experiments_and_an_unused_name_is_fine() -> None:
    assert study_of({"rule": "fa"}, {}, where="").experiments == {}
    named = {"name": "x", "include": [{"name": "{rule}", "rule": "fa"}]}
    assert list(study_of(named, {}, where="").experiments) == ["fa"]
    assert runs_of({"name": "x", "rule": "fa"}) == [RunConfig(rule="fa")]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"name": "{rul}", "rule": "bp"}, "name: unknown setting 'rul', did you mean 'rule'?"),
        ({"rule": "bp", "include": [{"name": "{lamda}"}]}, "[[include]] 1 name: unknown setting 'lamda'"),
        ({"name": "{}", "rule": "bp"}, "name: unknown setting ''"),
        ({"name": "{rule.__class__}", "rule": "bp"}, "name: unknown setting 'rule.__class__'"),
        ({"name": "{rule[0]}", "rule": "bp"}, "name: unknown setting 'rule[0]'"),
        ({"name": "{rule", "rule": "bp"}, "name: expected settings in braces, got '{rule'"),
        ({"name": "rule}", "rule": "bp"}, "name: expected settings in braces, got 'rule}'"),
        ({"name": "{seed}", "rule": "bp"}, "name: expected no {seed}"),
        ({"name": "{rule:g}", "rule": "bp"}, "name: expected {rule}, got 'g' in the braces"),
        ({"name": "{rule!r}", "rule": "bp"}, "name: expected {rule}, got 'r' in the braces"),
        ({"name": "{penalty:999999999}", "rule": "bp"}, "or a form of it such as {penalty:g}, got '999999999'"),
        ({"name": "{penalty:{seed}}", "rule": "bp"}, "or a form of it such as {penalty:g}, got '{seed}'"),
        ({"name": 3, "rule": "bp"}, 'name: expected text such as "dfa, λ={penalty:g}", got 3'),
        ({"name": "", "rule": "bp"}, "name: expected text"),
        ({"name": "x"}, "the study is empty"),
        ({"grid": {"name": ["x"]}}, "[grid] unknown setting 'name'"),
        (
            {"name": "x", "grid": {"seed": [1, 2], "rule": ["bp", "dfa"]}},
            "name 'x': expected runs that differ in the seed alone, got rule 'bp' and 'dfa'. Add {rule} to the name.",
        ),
        (
            {"name": "{rule}", "grid": {"seed": [1, 2]}, "include": [{"epochs": 5}]},
            "name 'bp': expected runs that differ in the seed alone, got epochs 100 and 5. Add {epochs} to the name.",
        ),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_in_a_line(document: dict[str, Any], expected: str) -> None:
    lines = told(document)
    assert len(lines) == 1 and expected in lines[0] and lines[0].endswith("(s.toml)") and len(lines[0]) < 700
