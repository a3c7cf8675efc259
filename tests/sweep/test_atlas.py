"""The study ``atlas`` holds every rule on every net that it can train, with three seeds and the control of each run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from faudit.audit.audit import control_of
from faudit.config import RunConfig, identity
from faudit.experiment import build_rule
from faudit.nets import NETS
from faudit.rules import RULES
from faudit.sweep.study import Study, read_study

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28)}


@cache
def atlas() -> Study:
    return read_study(Path("atlas"))


def served(config: RunConfig) -> bool:
    net = NETS[config.net](SHAPES[config.data], 10, **config.settings_of("net"))
    return build_rule(config, net).refusal(net) is None


@pytest.mark.parametrize("data", SHAPES)
def test_the_atlas_leaves_out_exactly_the_pairs_that_a_rule_refuses(data: str) -> None:
    there = {(run.net, run.rule): run for run in atlas().runs if run.data == data and run.rule not in RULES.controls}
    assert all(map(served, there.values()))
    plain = {net: run for (net, rule), run in there.items() if rule == "bp"}
    assert list(plain) == ["mlp", "resmlp", "cnn"]
    for net in plain:
        for rule in RULES:
            if rule not in RULES.controls and (net, rule) not in there:
                assert not served(plain[net].with_(rule=rule)), f"{rule} can train {net}, but the atlas lacks the pair"


def test_every_run_of_the_atlas_has_its_control_and_three_seeds() -> None:
    runs = atlas().runs
    controls = {(*identity(run), run.seed, run.epochs) for run in runs if run.rule in RULES.controls}
    others = [run for run in runs if run.rule not in RULES.controls]
    wanted = {(*identity(one := control_of(run)), one.seed, one.epochs) for run in others}
    assert wanted == controls and len(controls) == len(others)
    assert all(len({run.seed for run in group}) == 3 for group in atlas().experiments.values())
    assert all(run.epochs >= 5 for run in runs), "the depth check decides nothing before epoch 5"


def test_the_digits_come_first_and_a_control_follows_its_rule() -> None:
    assert [run.data for run in atlas().runs] == sorted(run.data for run in atlas().runs)
    names = list(atlas().experiments)
    for run, control in zip(names[::2], names[1::2], strict=True):
        data, net, rule = run.split()
        assert control == f"{data} {net} frozen-{rule}"
