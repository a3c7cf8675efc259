"""A config is validated whole, spelled one way, and named by what it holds."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faudit.config import RunConfig, all_keys, attribute, command, key, known
from faudit.errors import ConfigError
from faudit.settings import Setting


def test_the_defaults_are_the_studys_recipe() -> None:
    config = RunConfig()
    assert (config.epochs, config.batch_size, config.lr, config.weight_decay) == (100, 128, 1e-3, 0.01)
    assert (config.optimizer, config.depth, config.width, config.w2_std) == ("adamw", 4, 256, 0.01)
    assert (config.schedule, config.pixels, config.eval_size, config.seed) == ("cosine", "standard", 1024, 42)
    local = RunConfig(rule="dfa")
    assert (local.clip, local.credit_eps, local.penalty) == (1.0, 1e-6, 0.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 0), ("depth", 2.5), ("depth", True), ("depth", "four"), ("depth", 10**9), ("epochs", 0),
        ("epochs", -3), ("penalty", -1e-9), ("penalty", math.nan), ("lr", math.nan), ("lr", math.inf), ("lr", 0),
        ("lr", "fast"), ("lr", [1e-3]), ("lr", None), ("lr", 10**400), ("seed", -1), ("seed", 2**63),
        ("batch_size", 0), ("clip", 0.0), ("credit_eps", 0), ("no_residual", "false"), ("no_residual", 1),
        ("net", "perceptron"), ("rule", ""), ("rule", 3), ("device", "mps"), ("dtype", "float16"),
        ("optimizer", "adagrad"),
        ("schedule", "linear"), ("milestones", 3), ("lr_factor", 0), ("pixels", "raw"), ("beta2", 1), ("eps", 0),
        ("threads", 0), ("log_every", 0), ("eval_size", 0),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_what_was_expected_and_what_came(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{key(name)}: expected ") and "\n" not in message
    assert f"got {value!r}"[:200] in message and len(message) < 400


def test_numpys_numbers_are_numbers() -> None:
    values: dict[str, Any] = {"seed": np.int64(3), "penalty": np.float64(0.5)}
    config = RunConfig(**values)
    assert config == RunConfig(seed=3, penalty=0.5) and type(config.seed) is int


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.parse({"depth": 0, "lr": "nan", "epoch": 3, "rule": "dfaa"}, where="x.toml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4 and all(line.endswith("(x.toml)") for line in lines)
    assert any("unknown setting 'epoch', did you mean 'epochs'?" in line for line in lines)
    assert any("did you mean 'dfa'?" in line for line in lines)


def test_toml_is_spelled_like_the_flags_and_flags_override_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('rule = "dfa"\nbatch-size = 64\nno-terminal-norm = true\npenalty = 1\n')
    config = RunConfig.from_toml(file, {"batch-size": "32", "epochs": "7"})
    assert (config.rule, config.batch_size, config.no_terminal_norm, config.epochs) == ("dfa", 32, True, 7)
    assert config.penalty == 1.0 and isinstance(config.penalty, float)
    file.write_text("batch_size = 64\n")
    with pytest.raises(ConfigError, match="did you mean 'batch-size'"):
        RunConfig.from_toml(file)


@pytest.mark.parametrize(
    "content",
    [
        b"rule = ",
        b"\xff\xfe",
        b"[grid]\nrule = ['bp']\n",
        b"a = " + b"[" * 5000,
        b"seed = " + b"1" * 5000,
        b"seed = 0x" + b"f" * 5000,
    ],
)
def test_a_file_that_is_no_config_gets_a_clear_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        RunConfig.from_toml(file)
    with pytest.raises(ConfigError, match="cannot read the config"):
        RunConfig.from_toml(tmp_path / "absent.toml")


def test_json_round_trip_is_exact() -> None:
    config = RunConfig(rule="dfa", penalty=0.1, lr=1 / 3, no_residual=True)
    assert RunConfig.parse(config.to_json(), where="here") == config


changes = st.fixed_dictionaries(
    {},
    optional={
        "depth": st.integers(1, 20),
        "lr": st.floats(1e-6, 1.0),
        "penalty": st.floats(0.0, 1.0),
        "seed": st.integers(0, 100),
        "rule": st.sampled_from(["bp", "dfa", "fa"]),
        "no_residual": st.booleans(),
    },
)


@given(changes, changes)
def test_two_configs_share_a_name_only_if_they_are_equal(a: dict[str, Any], b: dict[str, Any]) -> None:
    one, other = RunConfig(**a), RunConfig(**b)
    assert (one.run_id == other.run_id) == (one == other)


def test_every_setting_changes_the_name() -> None:
    """Whatever affects a result is in the run's name: a new setting that is left out of it fails here."""
    base = RunConfig()
    for name, setting in known().items():
        if name not in (
            "net",
            "rule",
            "optimizer",
        ):  # the name shows the first two, and test_the_name_is_pinned the last
            assert base.with_(**{name: changed(setting.first)}).run_id != base.run_id, name


def changed(setting: Setting) -> Any:
    """A valid value that is not the default."""
    default = setting.default
    try:
        setting.parse("no such value")
        words: list[str] = []
    except ValueError as error:
        words = str(error).removeprefix("one of ").split(", ")
    numbers = [default + 1] if isinstance(default, int | float) else []
    for value in (not default, *numbers, 0.5, 1, 2, (1,), *words, "cuda"):
        try:
            parsed = setting.parse(value)
        except ValueError:
            continue
        if parsed != default:
            return parsed
    raise AssertionError(f"no valid value but {default!r}")


def test_the_name_is_pinned() -> None:
    """A change here renames everybody's runs: bump the store's format instead of editing the expectation."""
    assert RunConfig().run_id == "resmlp-bp-digits-s42-44136fa355"
    assert RunConfig(penalty=0).run_id == RunConfig(penalty=0.0).run_id == RunConfig().run_id
    assert RunConfig(rule="dfa", data="cifar10").run_id.startswith("resmlp-dfa-cifar10-s42-")


def test_a_run_from_before_a_setting_keeps_its_name_and_its_meaning() -> None:
    """FA taught the embedding with c_0 before it had a setting for that. A file without the setting means that form."""
    old, new = RunConfig(rule="fa", embedding_feedback="none"), RunConfig(rule="fa")
    assert old.run_id == "resmlp-fa-digits-s42-5b94d2e00f" and new.run_id != old.run_id
    file = {name: value for name, value in old.to_json().items() if name != "embedding-feedback"}
    assert RunConfig.written(file, where="config.json") == old and RunConfig.parse(file, where="x.toml") == new
    assert RunConfig.written(new.to_json(), where="config.json") == new
    assert "--embedding-feedback none" in command(old, runs="runs") and "feedback" not in command(new, runs="runs")


def test_a_label_says_the_rule_the_penalty_and_a_missing_terminal_norm() -> None:
    config = RunConfig(rule="dfa", penalty=0.01, no_terminal_norm=True)
    assert RunConfig().label() == "bp" and config.label() == "dfa + λ=0.01, no terminal norm"
    assert config.label(on="resmlp") == "dfa + λ=0.01 on resmlp, no terminal norm"


def test_a_setting_nobody_reads_is_refused() -> None:
    (problem,) = RunConfig(rule="bp", clip=2.0).unused()
    assert problem.startswith("rule bp does not read clip") and problem.endswith("(it reads penalty)")
    assert list(RunConfig(rule="dfa", clip=2.0).unused()) == []
    assert RunConfig(rule="dfa", clip=2.0).settings_of("rule") == {
        "penalty": 0.0, "clip": 2.0, "credit_eps": 1e-6, "credit_norm": "rms", "block_decay": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"milestones": (3,)}, "schedule cosine does not read milestones"),
        ({"schedule": "constant", "lr_factor": 0.5}, "schedule constant does not read lr-factor"),
        ({"schedule": "step"}, "schedule step: expected the epochs of its steps, got none"),
        ({"schedule": "step", "milestones": (3,), "lr_factor": 0.5}, None),
    ],
)
def test_the_settings_of_the_step_schedule_are_for_it_alone(settings: dict[str, Any], told: str | None) -> None:
    problems = list(RunConfig(**settings).unused())
    assert problems == [] if told is None else len(problems) == 1 and problems[0].startswith(told)


def test_a_setting_of_another_member_is_dropped_at_its_default_and_checked_if_it_is_not() -> None:
    assert RunConfig(clip=1.0, patch=4, momentum=0.0) == RunConfig()
    assert RunConfig(clip=1.0).run_id == RunConfig().run_id and "clip" not in RunConfig(clip=1.0).to_json()
    config = RunConfig(clip="2")
    assert config.stray == {"clip": 2.0} and RunConfig.parse(config.to_json(), where="here") == config
    with pytest.raises(ConfigError, match="clip: expected a finite number > 0, got -1"):
        RunConfig(clip=-1)
    with pytest.raises(ConfigError, match="unknown setting 'clp', did you mean 'clip'"):
        RunConfig(clp=1.0)


def test_a_setting_that_the_run_does_not_read_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no setting 'clip': net resmlp, rule bp and optimizer adamw do not read"):
        RunConfig().clip  # noqa: B018  # reading it is the test


def test_a_new_member_keeps_what_it_reads_and_drops_the_rest() -> None:
    config = RunConfig(rule="dfa", clip=2.0, penalty=0.1, depth=3, optimizer="sgd", momentum=0.9, seed=7)
    plain = config.with_(rule="bp")
    assert plain == RunConfig(rule="bp", penalty=0.1, depth=3, optimizer="sgd", momentum=0.9, seed=7)
    assert config.with_(rule="frozen-fa").clip == 2.0 and config.with_(net="cnn", optimizer="adam").stray == {}
    assert config.with_(rule="bp", clip=2.0).stray == {"clip": 2.0}  # asked for, so it is refused and not dropped
    with pytest.raises(ConfigError, match="did you mean 'dfa'"):
        config.with_(rule="dfaa")


def test_a_config_is_an_immutable_value() -> None:
    config = RunConfig(rule="dfa", penalty=0.1)
    for name in ("seed", "penalty", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, 1)
    for copied in (copy.copy(config), pickle.loads(pickle.dumps(config))):  # noqa: S301  # made here
        assert copied == config and hash(copied) == hash(config) and copied.run_id == config.run_id
    assert config != RunConfig(rule="dfa") and config != "config" and eval(repr(config)) == config


def test_keys_and_attributes_are_one_spelling() -> None:
    assert [attribute(name) for name in all_keys()] == list(known())
    for setting in known().values():
        assert all(isinstance(one, Setting) and one.help for one in setting.readers.values())
