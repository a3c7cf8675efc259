"""Depth utility sample by sample: the interval by hand, its coverage, and what happens without answers."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from faudit import RunConfig, fit
from faudit.audit.audit import ControlIndex, control_of, judged_again
from faudit.audit.checks.check import FIRED, PASSED, UNDECIDED, Case, Control
from faudit.audit.checks.depth import Depth
from faudit.audit.checks.paired import Paired
from faudit.audit.protocol import PROTOCOLS
from faudit.errors import StoreError
from faudit.store import answers
from faudit.store.files import write_json
from faudit.store.run import sealed
from tests.support.cases import case

Bits = NDArray[np.bool_]


def asked(ours: Bits, frozen: Bits) -> Case:
    """A case with these answers of a run and its control."""
    n = len(ours)
    control = Control("frozen", float(frozen.mean()), right=answers.packed(frozen.tolist()))
    plain = case(frozen=None, samples=n, test_acc=float(ours.mean()))
    return replace(plain, frozen=(control,), right=answers.packed(ours.tolist()))


def bits(n: int, wrong: list[int]) -> Bits:
    right = np.ones(n, dtype=bool)
    right[wrong] = False
    return right


def test_faudit_4_is_faudit_3_with_the_paired_interval() -> None:
    new, old = PROTOCOLS["faudit-4"], PROTOCOLS["faudit-3"]
    assert [one.name for one in new.checks] == ["paired" if one.name == "depth" else one.name for one in old.checks]
    assert new["paired"].errors_removed == old["depth"].errors_removed and new.labels == old.labels


def test_the_interval_by_hand() -> None:
    """Of 100 samples the run gets 3 wrong, its control 8, both of them 2: so 1 + 6 are right in one alone."""
    found = Paired().find(asked(bits(100, [0, 1, 2]), bits(100, [1, 2, 3, 4, 5, 6, 7, 8])))
    spread = 1.96 * sqrt((7 + 1) / (3.5 * 8.5))
    assert found.value == pytest.approx(1 - 3.5 / 8.5)
    assert found.low == pytest.approx(1 - 3.5 / 8.5 * exp(spread))
    assert found.high == pytest.approx(1 - 3.5 / 8.5 * exp(-spread))
    assert found.status == PASSED and "not kept" not in found.reason


def test_it_decides_where_independent_samples_do_not() -> None:
    """The control makes 40 errors and the run makes 30 of them, no other."""
    both = asked(bits(360, list(range(30))), bits(360, list(range(40))))
    paired, depth = Paired().find(both), Depth().find(both)
    assert paired.value == pytest.approx(depth.value) and depth.low is not None and paired.low is not None
    assert depth.low < 0.03 < paired.low, "only the paired interval is above the threshold"
    worse = asked(bits(360, list(range(40))), bits(360, list(range(26))))
    assert Depth().find(worse).status == UNDECIDED and Paired().find(worse).status == FIRED


def test_networks_that_never_differ_are_undecided_and_not_walked_back() -> None:
    assert Paired().find(asked(bits(360, [1, 2, 3]), bits(360, [1, 2, 3]))).status == UNDECIDED


@pytest.mark.parametrize(("alone", "other", "both"), [(0.02, 0.05, 0.03), (0.03, 0.03, 0.05), (0.01, 0.01, 0.01)])
def test_the_interval_contains_the_truth_in_at_least_95_of_100_draws(alone: float, other: float, both: float) -> None:
    """``alone`` is the share that only the run gets wrong, ``other`` only the control, ``both`` both."""
    draw, n, inside = np.random.default_rng(5), 360, 0
    truth = 1 - (alone + both) / (other + both)
    for _ in range(600):
        kind = draw.choice(4, size=n, p=[alone, other, both, 1 - alone - other - both])
        found = Paired().find(asked((kind != 0) & (kind != 2), (kind != 1) & (kind != 2)))
        assert found.low is not None and found.high is not None
        inside += found.low <= truth <= found.high
    assert inside / 600 >= 0.94


def test_without_answers_the_interval_is_that_of_depth_and_the_reason_says_so() -> None:
    known = asked(bits(360, [0, 1, 2]), bits(360, list(range(30))))
    for lacking in (replace(known, right=None), replace(known, frozen=(Control("frozen", 0.9),))):
        paired, depth = Paired().find(lacking), Depth().find(lacking)
        assert (paired.low, paired.high) == (depth.low, depth.high)
        assert "answers of single samples were not kept" in paired.reason
    earlier = replace(known, rows=[*known.rows, known.rows[-1]]).until(1)
    assert earlier.right is None, "only the answers at the end are kept"


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 360])
def test_bits_come_back_in_order(n: int) -> None:
    right = [bool(place % 3) for place in range(n)]
    found = answers.unpacked(answers.packed(right), n)
    assert [bool(found >> (n - 1 - place) & 1) for place in range(n)] == right and found.bit_length() <= n


def test_a_run_keeps_its_answers_and_is_compared_with_its_control_by_them(tmp_path: Path) -> None:
    config = RunConfig(epochs=5, width=16, depth=1)
    run, frozen = fit(config, tmp_path), fit(control_of(config), tmp_path)
    for one in (run, frozen):
        text, last = answers.of(one), one.rows()[-1]
        assert text is not None
        right = answers.unpacked(text, last["test_samples"]).bit_count()
        assert right / last["test_samples"] == pytest.approx(last["test_acc"], abs=1e-12)
    control = ControlIndex(tmp_path).control(config)
    assert control is not None and control.right == answers.of(frozen)
    assert judged_again(run, PROTOCOLS["faudit-4"], beside=ControlIndex(tmp_path)) is None, "it was not audited"


def test_answers_of_another_number_of_samples_are_damage(tmp_path: Path) -> None:
    run = fit(RunConfig(epochs=1, width=8, depth=1), tmp_path)
    for text in (answers.packed([True] * 9), "no base64 ü", "AAA"):
        said = {**(run.outcome() or {}), answers.KEY: text}
        write_json(run.path / "done.json", sealed(said))
        with pytest.raises(StoreError, match=r"done.json is damaged: test_right: expected one bit for each of 360"):
            answers.of(run)
