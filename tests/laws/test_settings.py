"""Laws of settings: every member declares them in its own file, and flags, configs and run ids follow from there."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faudit import experiment
from faudit.cli.main import main
from faudit.config import RUN, RunConfig, key, known
from faudit.errors import ConfigError
from faudit.own_members import FAMILIES
from faudit.rules import Rules, control_name
from faudit.settings import Configurable, settings_of
from faudit.train import fit

MEMBERS = [(family, name) for family, registry in FAMILIES.items() for name in registry]

OWN = '''
from dataclasses import dataclass, replace
from faudit.rules.bp import BP
from faudit.settings import number, setting

@dataclass(frozen=True)
class Scaled(BP):
    """BP with every gradient multiplied by a factor."""

    factor: float = setting(1.0, number(0.0), "factor of every gradient")

    def step(self, *args, **named):
        step = super().step(*args, **named)
        return replace(step, grads={name: self.factor * grad for name, grad in step.grads.items()})
'''


@pytest.mark.parametrize(("family", "name"), MEMBERS)
def test_what_the_source_declares_is_what_the_class_has(family: str, name: str) -> None:
    registry: Configurable[Any] = FAMILIES[family]
    read, own = registry.settings(name), settings_of(registry[name])
    assert list(read) == list(own)
    for attribute, setting in read.items():
        assert (setting.default, setting.help) == (own[attribute].default, own[attribute].help)
        assert type(setting.default) is type(own[attribute].default)


@pytest.mark.parametrize(("family", "name"), [("run", "run"), *MEMBERS])
def test_every_setting_has_a_help_and_a_parser_that_accepts_its_default(family: str, name: str) -> None:
    for attribute, setting in (RUN if family == "run" else FAMILIES[family].settings(name)).items():
        parsed = setting.parse(setting.default)
        assert parsed == setting.default and type(parsed) is type(setting.default), attribute
        assert setting.default is not True, f"{attribute}: the flag of a switch can only turn it on"
        assert setting.help and "\n" not in setting.help and not setting.help.endswith("."), attribute


def test_a_name_is_declared_by_one_family_and_has_one_type() -> None:
    families = {family: set().union(*map(registry.settings, registry)) for family, registry in FAMILIES.items()}
    for (one, names), (other, others) in itertools.combinations([("run", set(RUN)), *families.items()], 2):
        assert not names & others, f"{one} and {other} both declare {names & others}"
    for name, setting in known().items():
        kinds = {type(one.default) for one in setting.readers.values()}
        assert len(kinds) == 1, f"{name} has the types {kinds}"


def test_settings_are_read_without_torch() -> None:
    code = "import sys; from faudit.config import known; known(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("family", "name"), MEMBERS)
def test_a_member_reads_its_settings_and_its_help_lists_them(
    family: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(**{family: name})
    assert config.settings_of(family) == {
        attribute: one.default for attribute, one in FAMILIES[family].settings(name).items()
    }
    assert main(["train", f"--{family}", name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("  --")]
    assert shown == [f"--{key(attribute)}" for attribute in FAMILIES[family].settings(name)]


def test_one_more_rule_edits_no_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scaled_rule.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    rules = Rules({"scaled": "scaled_rule:Scaled"})
    monkeypatch.setitem(FAMILIES, "rule", rules)
    monkeypatch.setattr(experiment, "RULES", rules)
    assert list(rules.settings("scaled")) == ["penalty", "factor"] and "scaled_rule" not in sys.modules
    assert rules.settings(control_name("scaled")) == rules.settings("scaled")
    base = RunConfig(rule="scaled", epochs=1, width=8, depth=1, optimizer="sgd", lr=0.1)
    other = base.with_(factor="2")
    assert other.factor == 2.0 and other.run_id != base.run_id == base.with_(factor=1.0).run_id
    assert RunConfig.parse(other.to_json(), where="here") == other
    with pytest.raises(ConfigError, match="factor: expected a finite number ≥ 0, got -1"):
        base.with_(factor=-1)
    runs = [fit(config, tmp_path / "runs") for config in (base, other, base.with_(lr=0.2, weight_decay=0.0))]
    losses = [run.rows()[-1]["train_loss"] for run in runs]
    assert losses[0] != losses[1] and runs[1].config() == other
