"""Swap: the update under other feedback, computed from two steps of the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from faudit.bench.protocol.wrong_rules import OtherTeacher, UnusedKolenPollack
from faudit.nets.net import part
from faudit.probes.swap import Swap
from faudit.rules import RULES
from tests.support.nets import Setup
from tests.support.readings import reading_of

FED = [name for name in RULES.declaring if name not in ("bp", "local-loss", "forward-forward", "ep")]


def test_the_cosine_is_between_two_steps_that_differ_in_the_feedback_alone() -> None:
    setup = Setup("fa-weights", "mlp")
    reading = reading_of(setup)
    row = Swap().measure(reading)
    other = Setup("fa-weights", "mlp")
    other.state = {name: value.double() for name, value in reading.fresh_state("swap").items()}
    steps = [setup.grads(), other.grads()]
    for place, one in enumerate(setup.net.parts):
        names = [name for name in steps[0] if part(name) == one]
        if not names:  # the embedding of an MLP has no weights
            assert row["swap_cosines"][place] is None
            continue
        u, v = (np.concatenate([grads[name].numpy().ravel() for name in names]) for grads in steps)
        assert row["swap_cosines"][place] == pytest.approx(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    assert row["swap_cosines"][-1] == pytest.approx(1.0), "the true loss teaches the readout"
    assert row["swap_cosine"] < 1.0


@pytest.mark.parametrize("rule", FED)
def test_other_feedback_changes_the_update_of_every_rule_that_has_feedback(rule: str) -> None:
    row = Swap().measure(reading_of(Setup(rule, "mlp")))
    assert row["swap_cosine"] is not None and min(c for c in row["swap_cosines"] if c is not None) < 0.99


@pytest.mark.parametrize("rule", ["bp", "ep", "local-loss"])
def test_a_rule_without_feedback_has_no_swap(rule: str) -> None:
    setup = Setup(rule, "mlp")
    assert Swap().measure(reading_of(setup)) == {"swap_cosine": None, "swap_cosines": [None] * len(setup.net.parts)}


@pytest.mark.parametrize("wrong", [OtherTeacher(), UnusedKolenPollack()])
def test_feedback_that_does_not_teach_leaves_the_update_as_it_is(wrong: OtherTeacher | UnusedKolenPollack) -> None:
    reading = replace(reading_of(Setup("kolen-pollack", "mlp")), rule=wrong)
    assert [c for c in Swap().measure(reading)["swap_cosines"] if c is not None] == pytest.approx([1.0] * 4)


def test_an_update_of_nothing_has_no_cosine() -> None:
    setup = Setup("dfa-layers", "mlp")
    setup.state = {name: torch.zeros_like(value) for name, value in setup.state.items()}
    assert Swap().measure(reading_of(setup))["swap_cosines"][:-1] == [None] * 4
