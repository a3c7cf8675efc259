"""The committed runs have the verdicts that the code before checks became values gave them.

``golden_verdicts.json`` holds what that code said of every run under ``evidence/`` that it could judge without more
data: verdict, reasons, and each check's status, value and first-fire epoch. Runs of FA are left out, because FA has
another rule for its embedding since. Three things have other words since: the
protocol ``study`` is ``paper``, its two modes of a check are checks of their own, and a trustworthy verdict lists what
passed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from faudit.audit.audit import ControlIndex, audit
from faudit.audit.checks.check import Case
from faudit.audit.judge import TRUSTWORTHY, judge
from faudit.audit.protocol import PROTOCOLS
from faudit.store.run import Run
from tests.support.paths import ROOT

GOLDEN = json.loads((Path(__file__).parent / "golden_verdicts.json").read_text())
RENAMED = {"study": {"reference": "floor", "depth": "points"}, "faudit-1": {}}
NOW = {"study": "paper", "faudit-1": "faudit-1"}


@cache
def beside(store: Path) -> ControlIndex:
    return ControlIndex(store)


@cache
def case(name: str) -> Case:
    path = ROOT / "evidence" / name
    return audit(Run(path), PROTOCOLS["paper"], data_dir=None, beside=beside(path.parent)).case


def renamed(reason: str, protocol: str) -> str:
    check, _, rest = reason.partition(": ")
    return f"{RENAMED[protocol].get(check, check)}: {rest}"


@pytest.mark.parametrize("name", GOLDEN["faudit-1"])
@pytest.mark.parametrize("protocol", GOLDEN)
def test_a_run_is_judged_as_before(protocol: str, name: str) -> None:
    then, now = GOLDEN[protocol][name], judge(case(name), PROTOCOLS[NOW[protocol]])
    assert now.verdict == then["verdict"]
    if now.verdict == TRUSTWORTHY:
        assert then["reasons"] == ["every check that applies passed"] and now.reasons[0].startswith("passed: ")
    else:
        assert list(now.reasons) == [renamed(reason, protocol) for reason in then["reasons"]]
    found = {finding.check: finding for finding in (*now.findings, *now.labels)}
    assert list(found) == [RENAMED[protocol].get(check, check) for check in then["findings"]]
    for finding, (status, value, first_fire) in zip(found.values(), then["findings"].values(), strict=True):
        assert (finding.status, finding.first_fire) == (status, first_fire), finding.check
        assert finding.value == (None if value is None else pytest.approx(value, rel=1e-9)), finding.check


def test_the_golden_file_holds_every_kind_of_verdict() -> None:
    assert len(GOLDEN["faudit-1"]) == len(GOLDEN["study"]) == 21
    assert {entry["verdict"] for entry in GOLDEN["study"].values()} == {TRUSTWORTHY, "needs walk-back", "inconclusive"}
