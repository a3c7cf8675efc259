"""What faudit-3 asks beyond faudit-2: every deep block, own samples, and feedback that the update depends on."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest

from faudit.audit.checks.blocks import Blocks
from faudit.audit.checks.check import FIRED, INVALID, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED, Check
from faudit.audit.checks.samples import Samples
from faudit.audit.checks.swap import Swap
from faudit.audit.judge import TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.protocol import PROTOCOLS
from tests.support.cases import HEALTHY, case

OURS, BEFORE = PROTOCOLS["faudit-3"], PROTOCOLS["faudit-2"]


def test_it_is_faudit_2_with_three_more_checks() -> None:
    assert OURS.checks[:-3] == BEFORE.checks and OURS.labels == BEFORE.labels
    assert [check.name for check in OURS.checks[-3:]] == ["blocks", "samples", "swap"]
    assert judge(case(), OURS).verdict == TRUSTWORTHY


@pytest.mark.parametrize(
    ("entries", "fires"),
    [
        ({"gamma": [0.4, 0.4, 0.0, 0.4]}, ["blocks", "samples"]),
        ({"gamma_others": [0.05, 0.05, 0.19, 0.05]}, ["samples"]),
        ({"swap_cosines": [1.0] * 6}, ["swap"]),
    ],
)
def test_one_more_check_fires_where_faudit_2_has_none(entries: dict[str, Any], fires: list[str]) -> None:
    assert judge(case(**entries), BEFORE).verdict == TRUSTWORTHY
    verdict = judge(case(**entries), OURS)
    assert verdict.verdict == WALK_BACK and [one.check for one in verdict.findings if one.status == FIRED] == fires


def test_the_worst_deep_block_counts_and_the_first_block_does_not() -> None:
    draws = [[0.01 * ((7 * draw + block) % 11 - 5) for draw in range(20)] for block in range(4)]
    gamma = [-0.9, 0.4, 0.2, 0.3]
    asked = case(gamma=gamma, gamma_null_draws=draws)
    found = Blocks().find(asked)
    scores = [(g - fmean(d)) / stdev(d) for g, d in zip(gamma, draws, strict=True)]
    assert found.value == pytest.approx(min(scores[1:])) == pytest.approx(scores[2]) and "block 2" in found.reason
    assert found.status == PASSED and Blocks(each=scores[2] + 0.1).find(asked).status == FIRED
    alone: dict[str, Any] = {
        name: HEALTHY[name][:1] for name in ("gamma", "gamma_null_draws", "gamma_null_std", "gamma_bp")
    }
    assert Blocks().find(case(**alone)).status == PASSED
    assert Blocks().find(case(**alone | {"gamma": [0.0]})).status == FIRED, "the only block counts"


def test_blocks_without_feedback_are_not_asked_and_a_null_without_spread_is_undecided() -> None:
    assert Blocks().find(case(gamma_null_std=[0.1, 0.0, None, 0.0])).status == NOT_APPLICABLE
    assert Blocks().find(case(gamma_null_std=[0.0, 0.1, 0.0, 0.0], gamma=[0, 0.4, 0, 0])).status == PASSED
    draws = [HEALTHY["gamma_null_draws"][0], [0.1] + [None] * 19, *HEALTHY["gamma_null_draws"][2:]]
    found = Blocks().find(case(gamma_null_draws=draws))
    assert found.status == UNDECIDED and "block 1" in found.reason


def test_own_samples_are_held_against_others_in_standard_deviations() -> None:
    entries: dict[str, Any] = {
        "gamma": [0.0, 0.2, 0.1, 0.3],
        "gamma_others": [0.5, 0.1, 0.09, 0.0],
        "gamma_others_std": [0.01] * 4,
    }
    found = Samples().find(case(**entries))
    assert found.status == FIRED and found.value == pytest.approx(1.0) and "block 2" in found.reason
    assert Samples(own=0.9).find(case(**entries)).status == PASSED
    assert Samples().find(case(**entries | {"gamma_others_std": [0.01, 0.0, 0.01, 0.01]})).status == UNDECIDED


@pytest.mark.parametrize("check", [Blocks(), Samples()])
def test_a_gamma_that_cannot_be_asked_is_no_pass(check: Check) -> None:
    assert check.find(case(gamma=[0.4, None, 0.2, 0.2])).status == UNDECIDED
    assert check.find(case(gamma_bp=[1.0, 0.2, 1.0, 1.0])).status == INVALID
    assert check.find(case(rule="frozen-dfa")).status == NOT_APPLICABLE
    assert check.find(case(rule="pepita")).status == NOT_APPLICABLE
    for name in check.reads:
        missing: dict[str, Any] = {name: None}
        assert check.find(case(**missing)).status == NOT_MEASURED


def test_an_update_that_other_feedback_does_not_turn_fires() -> None:
    same = [1.0 - 1e-9] * 5
    assert Swap().find(case(swap_cosines=[*same, 1.0])).status == FIRED
    assert Swap().find(case(swap_cosines=[None, None, None, 0.5, None, 1.0])).status == PASSED
    assert Swap().find(case(swap_cosines=[*same, 0.5])).status == FIRED, "the readout does not count"
    assert Swap().find(case(swap_cosines=[None] * 5 + [1.0])).status == UNDECIDED
    assert Swap().find(case(swap_cosines=None)).status == NOT_MEASURED
    assert Swap().find(case(swap_cosines=[None] * 6)).status == NOT_APPLICABLE
    assert Swap().find(case(rule="frozen-dfa")).status == NOT_APPLICABLE
    assert Swap().find(replace(case(), config=None)).status == NOT_APPLICABLE
