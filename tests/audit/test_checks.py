"""Chance, protocols of one's own, and what a verdict says of an accuracy that was given by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from faudit import DATASETS, RunConfig, audit_model, fit
from faudit.audit.audit import audit
from faudit.audit.checks.chance import Chance
from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, Case, Check, Finding, at_most
from faudit.audit.checks.floor import Floor
from faudit.audit.checks.points import Points
from faudit.audit.checks.scale import Scale
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, judge
from faudit.audit.protocol import DEFAULT, PROTOCOLS, Protocol, protocol
from faudit.audit.strategies import accuracy_alone
from faudit.errors import ConfigError
from faudit.figures import FIGURES
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.faeval.claims import floor_fires, scale_fires
from faudit.store.rows import Row
from tests.support.cases import case


def test_chance_asks_the_lower_end_of_wilsons_interval_by_hand() -> None:
    share, n, z = 0.12, 1000, 1.96
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    found = Chance().find(case(test_acc=share, samples=n))
    assert found.low == pytest.approx(middle - half) and found.high == pytest.approx(middle + half)
    assert (found.value, found.threshold, found.status) == (share, 0.1, PASSED) and middle - half > 0.1
    assert Chance().find(case(test_acc=0.115, samples=n)).status == FIRED, "above 1/10, its interval is not"
    assert Chance().find(case(test_acc=0.115, samples=100_000)).status == PASSED


def test_chance_is_of_classes_and_of_an_accuracy() -> None:
    assert Chance().find(replace(case(test_acc=0.12), classes=0)).status == NOT_APPLICABLE
    assert Chance().find(replace(case(test_acc=0.12), classes=2)).status == FIRED
    assert Chance().find(case(test_acc=None)).status == NOT_MEASURED
    assert Chance().find(case(test_acc=math.nan)).status == FIRED
    for entries in ({"test_acc": 0.12}, {"test_acc": 0.1}, {"test_acc": None}):
        status = Chance().find(case(**entries)).status
        assert accuracy_alone(case(**entries)) == {PASSED: TRUSTWORTHY, FIRED: WALK_BACK}.get(status, INCONCLUSIVE)


def test_the_default_is_faudit_4_and_faudit_2_is_still_faudit_1_with_chance() -> None:
    before = PROTOCOLS["faudit-1"]
    assert PROTOCOLS["faudit-2"] == Protocol("faudit-2", (*before.checks, Chance()), before.labels)
    assert DEFAULT == "faudit-4"


def untrained() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10))


def test_an_untrained_model_is_not_trustworthy_and_a_frozen_accuracy_given_by_hand_is_named() -> None:
    data = DATASETS["digits"](None)
    test = [(data.normalise(data.test_x), data.test_y)]
    now = audit_model(untrained(), test, taps=["1", "3"], frozen=[0.05])
    before = audit_model(untrained(), test, taps=["1", "3"], frozen=[0.05], protocol="faudit-1")
    assert before.row["acc_eval"] < 0.11 and before.verdict.verdict == TRUSTWORTHY
    assert now.verdict.verdict == WALK_BACK and now.verdict.reasons[0].startswith("chance: accuracy 0.")
    for audited in (before, now):
        assert "the frozen accuracy was given by hand (0.05): faudit has not measured it" in audited.verdict.reasons
        (depth,) = (finding for finding in audited.verdict.findings if finding.check in ("depth", "paired"))
        assert "against 0.050, given by hand" in depth.reason
    of_runs = judge(case(), PROTOCOLS[DEFAULT])
    assert not any("by hand" in text for text in (*of_runs.reasons, *(one.reason for one in of_runs.findings)))


def test_a_run_that_learned_nothing_is_not_trustworthy(tmp_path: Path) -> None:
    run = fit(RunConfig(rule="frozen-dfa", lr=1e-7, epochs=2, width=16, depth=2, batch_size=128, seed=1), tmp_path)
    assert audit(run, PROTOCOLS["faudit-1"], data_dir=None).verdict.verdict == TRUSTWORTHY
    verdict = audit(run, PROTOCOLS[DEFAULT], data_dir=None).verdict
    assert verdict.verdict == WALK_BACK and [reason[:7] for reason in verdict.reasons] == ["chance:"]


@dataclass(frozen=True)
class Loss(Check):
    """A check of somebody's own: the loss on the buffer."""

    name: ClassVar[str] = "loss"
    reads: ClassVar[tuple[str, ...]] = ("loss_eval",)

    loss: float = 1.0

    def find(self, case: Case) -> Finding:
        value = case.last.get("loss_eval")
        if value is None:
            return self.finding(NOT_MEASURED, "no loss", threshold=self.loss)
        return self.finding(at_most(value, self.loss), f"the loss is {value:g}", value=value, threshold=self.loss)


def test_a_check_and_a_protocol_of_ones_own_judge_runs_and_models() -> None:
    mine = Protocol("mine", checks=(Scale(), Loss(2.0)))
    assert judge(case(loss_eval=1.5), mine).reasons == ("passed: scale, loss",)
    assert judge(case(loss_eval=2.5), mine).reasons == ("loss: the loss is 2.5",)
    assert judge(case(), mine).verdict == INCONCLUSIVE
    assert mine["loss"].loss == 2.0 and mine.with_check(Loss(3.0))["loss"].loss == 3.0
    x, y = torch.randn(16, 64), torch.randint(10, (16,))
    audited = audit_model(untrained(), [(x, y)], taps=["1", "3"], protocol=mine)
    assert audited.verdict.protocol == "mine" and [one.check for one in audited.verdict.findings] == ["scale", "loss"]
    assert protocol(mine) is mine


@dataclass(frozen=True)
class Grown(Loss):
    """Shares the name of a threshold with ``Scale``."""

    name: ClassVar[str] = "grown"

    growth: float = 3.0


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ((), "expected at least one check, got none"),
        ((Scale(), Scale(growth=3.0)), "expected each check once, got 'scale' 2 times"),
        ((Scale(), Grown()), "expected each threshold once, got 'growth' 2 times"),
    ],
)
def test_a_protocol_that_cannot_be_told_apart_by_name_is_refused(checks: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Protocol("mine", checks)


def test_an_unknown_check_or_protocol_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'scale'"):
        PROTOCOLS["paper"]["scal"]
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        protocol("papers")


def test_a_case_without_a_control_says_why_there_is_none() -> None:
    for check in (PROTOCOLS[DEFAULT]["paired"], Points()):
        found = check.find(replace(case(frozen=None), no_control="its blocks are its readout"))
        assert found.status == NOT_MEASURED
        assert found.reason == "no control with frozen blocks can be made: its blocks are its readout"


def test_figures_and_claims_ask_the_protocol_for_the_published_thresholds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Protocol("paper", checks=(Scale(growth=7.0), Floor(floor=0.5), Points(points=0.25)))
    assert not scale_fires(Row(hidden_norms=[1.0, 8.0])) and not floor_fires(Row(grad_norms=[0.4]))
    monkeypatch.setitem(PROTOCOLS, "paper", other)
    assert scale_fires(Row(hidden_norms=[1.0, 8.0])) and floor_fires(Row(grad_norms=[0.4]))
    table = Table(PAPERS["faeval"].plan(), tmp_path, partial=True)
    drawn = {name: FIGURES[name]().numbers(table) for name in ("crossarch", "penalty-sweep")}
    assert [numbers["floor"] for numbers in drawn.values()] == [0.5, 0.5] and drawn["penalty-sweep"]["margin"] == 0.25
