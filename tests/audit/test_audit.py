"""The audit: each check passes one case and fires on another, the judge is a table, and the command says the same."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faudit import RunConfig, fit
from faudit.audit.audit import audit, control_of
from faudit.audit.checks.check import (
    FIRED,
    INVALID,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASSED,
    UNDECIDED,
    Case,
    Control,
    Finding,
)
from faudit.audit.checks.null import fed_blocks, score
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, decide, judge
from faudit.audit.method import methods
from faudit.audit.protocol import PROTOCOLS, Protocol
from faudit.cli.main import main
from faudit.store import audits
from faudit.store.rows import Row, to_line
from tests.support import fabricate
from tests.support.cases import HEALTHY, case

SMALL = RunConfig(epochs=2, width=16, depth=2, batch_size=128)
OURS, PAPER = PROTOCOLS["faudit-1"], PROTOCOLS["paper"]


def found(name: str, one: Case, protocol: Protocol = OURS) -> Finding:
    finding = protocol[name].find(one)
    assert isinstance(finding, Finding) and finding.check == name
    return finding


def status(name: str, one: Case, protocol: Protocol = OURS) -> str:
    return found(name, one, protocol).status


def test_a_healthy_case_passes_every_check_of_every_protocol() -> None:
    for protocol in PROTOCOLS.values():
        verdict = judge(case(), protocol)
        assert verdict.verdict == TRUSTWORTHY, verdict.reasons
        assert all(finding.status == PASSED for finding in (*verdict.findings, *verdict.labels))


@pytest.mark.parametrize(
    ("name", "protocol", "entries"),
    [
        ("scale", OURS, {"hidden_norms": [1.0, 51.0, 51.0, 51.0, 51.0]}),
        ("scale", OURS, {"hidden_norms": [1.0, math.inf, math.inf, math.inf, math.inf]}),
        ("reference", OURS, {"precision_agree": [1.0, 1.0, 0.9, 1.0, 1.0]}),
        ("floor", PAPER, {"grad_norms": [1.0, 1.0, 1.0, 1.0, 9e-5]}),
        ("stability", OURS, {"stability": 0.31}),
        ("depth", OURS, {"test_acc": 0.7}),
        ("points", PAPER, {"test_acc": 0.81}),
        ("feedback", OURS, {"gamma_null_std": [0.0] * 4}),
        ("null", OURS, {"gamma": [0.9, 0.01, -0.01, 0.0]}),
        ("null", OURS, {"gamma": [0.9, -0.3, -0.3, -0.3]}),
        ("null", OURS, {"gamma": [0.9, 0.9, -0.3, 0.9]}),
        ("scale", OURS, {"hidden_norms": [1.0, math.nan, 1.0, 1.0, 1.0]}),
        ("floor", PAPER, {"grad_norms": [1.0, 1.0, 1.0, 1.0, math.nan]}),
        ("stability", OURS, {"stability": math.nan}),
        ("movement", OURS, {"block_turn": [math.nan, 0.3, 0.3, 0.3]}),
        ("null", OURS, {"gamma": [0.9, 0.3, 0.3, -1.0], "gamma_null_std": [0.02, 0.02, 0.02, 0.0]}),
        ("null", OURS, {"gamma": [-1.0, 1.0, 1.0, 1.0], "gamma_null_std": [None] * 4, "gamma_null_mean": [None] * 4}),
        ("movement", OURS, {"block_turn": [0.3, 0.3, 0.0, 0.3]}),
        ("rank", OURS, {"reference_rank": [5.0, 5.0, 1.01, 5.0, 5.0]}),
    ],
)
def test_a_check_fires_on_what_it_is_for(name: str, protocol: Protocol, entries: dict[str, Any]) -> None:
    assert status(name, case(), protocol) == PASSED
    verdict = judge(case(**entries), protocol)
    (one,) = (finding for finding in (*verdict.findings, *verdict.labels) if finding.check == name)
    assert one.status == FIRED and one.first_fire == 9
    if name != "stability":
        assert verdict.verdict == WALK_BACK


def test_a_label_never_decides() -> None:
    verdict = judge(case(stability=0.99), OURS)
    assert verdict.verdict == TRUSTWORTHY and verdict.labels[0].status == FIRED


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("scale", {"hidden_norms": [None, None, None, None, 5.0]}), ("reference", {"precision_agree": None}),
        ("depth", {"frozen": None}), ("null", {}), ("feedback", {}), ("movement", {"block_turn": [None] * 4}),
        ("rank", {"reference_rank": None}), ("depth", {"test_acc": None, "acc_eval": 0.9}),
        ("reference", {"precision_fitted": 80, "eval_samples": 100}),
    ],
)  # fmt: skip
def test_what_was_not_measured_is_never_a_pass(name: str, entries: dict[str, Any]) -> None:
    one = case(**entries)
    if name in ("null", "feedback"):
        row = Row({k: v for k, v in one.last.items() if not k.startswith("gamma_null")})
        one = Case(one.config, [row], 1000, 10, one.frozen)
    assert status(name, one) == NOT_MEASURED and judge(one, OURS).verdict == INCONCLUSIVE


def test_frozen_runs_are_not_judged_by_depth_and_bp_not_by_feedback() -> None:
    assert status("depth", case("frozen-dfa")) == NOT_APPLICABLE
    nothing: dict[str, Any] = {"gamma_null_mean": [None] * 4, "gamma_null_std": [None] * 4}
    assert status("feedback", case("bp", **nothing)) == NOT_APPLICABLE
    for name in ("feedback", "null", "movement"):
        assert status(name, case("frozen-dfa")) == NOT_APPLICABLE
    assert judge(case("bp", gamma=[1.0] * 4, **nothing), OURS).verdict == TRUSTWORTHY


def test_a_failed_control_makes_the_measurement_invalid_and_the_verdict_inconclusive() -> None:
    for entries in ({"rho_bp": [0.5] * 4}, {"rho_random": [0.9] * 4}, {"rho_bp": [None] * 4}):
        verdict = judge(case(rho_valid=[True, True, False, True], **entries), OURS)
        assert verdict.verdict == INCONCLUSIVE and verdict.findings[-1].status == INVALID
        assert verdict.reasons[0].startswith("controls: at block 2")


def test_a_gamma_whose_own_control_fails_is_invalid_and_no_number() -> None:
    verdict = judge(case(gamma_bp=[1.0, 0.5, 1.0, 1.0]), OURS)
    by_name = {finding.check: finding for finding in verdict.findings}
    assert verdict.verdict == INCONCLUSIVE and by_name["null"].status == by_name["controls"].status == INVALID
    assert by_name["null"].value is None and "Γ +0.5000" in by_name["controls"].reason


def test_an_undefined_gamma_is_undecided_and_few_classes_are_not_asked_for_rank() -> None:
    assert status("null", case(gamma=[0.9, None, 0.2, 0.2])) == UNDECIDED
    assert status("feedback", case(gamma=[None] * 4, gamma_null_std=[None] * 4)) == UNDECIDED
    one = case(reference_rank=[1.0] * 5)
    few = [status("rank", replace(one, classes=classes)) for classes in (0, 1, 2, 3, 4)]
    assert few == [NOT_APPLICABLE] * 4 + [FIRED]


def test_a_network_in_float64_has_no_float64_to_be_held_against() -> None:
    one = case()
    double = replace(one, config=RunConfig(rule="dfa", dtype="float64"))
    assert status("reference", double) == NOT_APPLICABLE and status("floor", double, PAPER) == PASSED


def test_depth_is_the_share_of_errors_removed_with_an_interval_by_hand() -> None:
    depth = found("depth", case(test_acc=0.9, frozen=0.8, samples=1000))
    errors, before = 100.5, 200.5
    ratio = errors / before
    half = 1.96 * math.sqrt(1 / errors - 1 / 1001 + 1 / before - 1 / 1001)
    assert depth.value == pytest.approx(1 - ratio)
    assert depth.low == pytest.approx(1 - ratio * math.exp(half))
    assert depth.high == pytest.approx(1 - ratio * math.exp(-half))


def test_two_points_on_easy_data_are_enough_and_too_few_samples_leave_it_undecided() -> None:
    easy = case(test_acc=0.983, frozen=0.969, samples=360)
    assert status("depth", easy) == PASSED and "by its estimate alone" in found("depth", easy).reason
    assert "estimate" not in found("depth", case(test_acc=0.99, frozen=0.8, samples=10_000)).reason
    assert status("points", easy, PAPER) == FIRED
    assert status("depth", case(test_acc=0.80, frozen=0.80, samples=100)) == UNDECIDED
    assert judge(case(test_acc=0.80, frozen=0.80, samples=100), OURS).verdict == INCONCLUSIVE
    assert status("depth", case(test_acc=0.80, frozen=0.85, samples=10_000)) == FIRED


def test_a_run_of_a_few_epochs_is_not_asked_about_depth() -> None:
    young = case(test_acc=0.2, frozen=0.8, epoch=4)
    assert status("depth", young) == UNDECIDED and status("points", young, PAPER) == FIRED
    assert status("depth", case(test_acc=0.2, frozen=0.8, epoch=5)) == FIRED


def test_the_null_score_is_of_whole_draws_and_leaves_out_block_0_and_blocks_without_a_null() -> None:
    row = Row(
        gamma=[9.0, 0.3, 0.1, 1.0],
        gamma_null_std=[1.0, 0.03, 0.04, 0.0],
        gamma_null_draws=[[0.0, 1.0, 2.0], [0.1, 0.2, None], [0.3, -0.2, 5.0], [1.0, 1.0, 1.0]],
    )
    assert fed_blocks(row, first=1) == [1, 2] and fed_blocks(row, first=0) == [0, 1, 2]
    draws = np.array([[0.1, 0.3], [0.2, -0.2]]).mean(axis=1)  # the third draw lacks a block
    assert score(row, [1, 2]) == pytest.approx((0.2 - draws.mean()) / draws.std(ddof=1))


def test_draws_that_share_no_defined_block_leave_the_null_undecided() -> None:
    holes = [[0.1, 0.2] + [None] * 18, [None] * 18 + [0.1, 0.2]]
    draws = [HEALTHY["gamma_null_draws"][0], *holes, HEALTHY["gamma_null_draws"][0]]
    null = found("null", case(gamma_null_draws=draws))
    assert null.status == UNDECIDED and null.value is None and "too few draws" in null.reason


def test_the_only_block_and_the_first_tap_of_a_foreign_model_are_judged() -> None:
    backwards = Row({name: value[:1] if isinstance(value, list) else value for name, value in HEALTHY.items()})
    backwards["gamma"] = [-1.0]
    for config in (RunConfig(rule="dfa", depth=1), None):
        assert status("null", Case(config, [backwards], 1000, 10)) == FIRED
    assert status("null", case(gamma=[-1.0, 0.9, 0.9, 0.9])) == PASSED, "of a run it is the embedding's"
    assert status("null", replace(case(gamma=[-1.0, 0.9, 0.9, 0.9]), config=None)) == FIRED


def test_first_fire_is_the_first_logged_epoch_after_0_of_every_check() -> None:
    changes: list[dict[str, Any]] = [
        {"hidden_norms": [1.0, 60.0], "test_acc": 0.1, "reference_rank": [1.0]}, {},
        {"hidden_norms": [1.0, 60.0], "reference_rank": [1.0], "test_acc": None}, {"test_acc": 0.1}, {},
    ]  # fmt: skip
    rows = [Row(HEALTHY, epoch=5 * place, **change) for place, change in enumerate(changes)]
    control = Control("frozen", 0.8, {0: 0.8, 5: 0.5, 15: 0.8, 20: 0.8})
    verdict = judge(Case(RunConfig(rule="dfa"), rows, 1000, 10, (control,)), OURS)
    first = {finding.check: finding.first_fire for finding in verdict.findings}
    assert verdict.verdict == TRUSTWORTHY
    assert {name: epoch for name, epoch in first.items() if epoch} == {"scale": 10, "rank": 10, "depth": 15}


def test_another_log_of_the_same_control_is_no_second_test_set(tmp_path: Path) -> None:
    wanted = control_of(SMALL.with_(rule="fa"))
    assert wanted.rule == "frozen-fa" and control_of(SMALL).rule == "frozen-bp"
    for log_every in (1, 2):
        fabricate.write(wanted.with_(log_every=log_every), tmp_path)
    run = fabricate.write(SMALL.with_(rule="fa"), tmp_path)
    assert len(audit(run, OURS, data_dir=None).case.frozen) == 1
    again = [(run.config(), judge(case(), OURS)), (run.config().with_(log_every=2), judge(case(), OURS))]
    assert [method.seeds for method in methods(again)] == [(42,)]


def test_the_judge_is_a_table() -> None:
    def finding(state: str) -> Finding:
        return Finding("x", state, "why")

    for states, verdict in (
        ([PASSED, PASSED], TRUSTWORTHY), ([PASSED, NOT_APPLICABLE], TRUSTWORTHY),
        ([PASSED, NOT_MEASURED], INCONCLUSIVE),
        ([UNDECIDED, PASSED], INCONCLUSIVE), ([PASSED, INVALID], INCONCLUSIVE),
        ([FIRED, NOT_MEASURED], WALK_BACK), ([FIRED, PASSED], WALK_BACK),
    ):  # fmt: skip
        decided = decide([finding(state) for state in states], protocol="p")
        assert decided.verdict == verdict and decided.reasons


def test_a_trustworthy_verdict_lists_what_passed_and_what_did_not_apply() -> None:
    findings = [Finding("a", PASSED, "fine"), Finding("b", NOT_APPLICABLE, "no b"), Finding("c", PASSED, "fine")]
    assert decide(findings, protocol="p").reasons == ("passed: a, c", "not applicable: b (no b)")
    assert decide(findings[1:2], protocol="p").reasons == ("not applicable: b (no b)",)
    assert decide(findings[:1], protocol="p").reasons == ("passed: a",)


@pytest.mark.usefixtures("forked_workers")
def test_the_command_judges_a_run_names_a_missing_control_and_makes_it_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(SMALL.with_(rule="dfa"), tmp_path)
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert main(["audit", str(run.path), "--json"]) in (1, 3)
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    findings = {finding["check"]: finding["status"] for finding in entry["findings"]}
    assert findings["paired"] == NOT_MEASURED and findings["reference"] == PASSED and NOT_MEASURED not in (
        findings["scale"], findings["feedback"], findings["null"],
    )  # fmt: skip
    after = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != audits.FILE}
    assert before == after, "an audit changes nothing of a run: it keeps what it measured in a file of its own"
    page = tmp_path / "audit.md"
    main(["audit", run.name, "--runs", str(tmp_path), "--with-controls", "--markdown", str(page)])
    assert (tmp_path / control_of(run.config()).run_id / "done.json").exists()
    assert "| paired |" in page.read_text() and "no matched run" not in page.read_text()


def test_an_unfinished_or_unknown_run_or_protocol_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(SMALL, tmp_path)
    (run.path / "done.json").unlink()
    for words, told in (
        ([str(run.path)], "needs a finished run"),
        (["nothing-here"], "unknown run"),
        ([str(run.path), "--protocol", "faudit-9"], "did you mean 'faudit-4'?"),
    ):
        assert main(["audit", *words, "--runs", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert told in said and len(said.splitlines()) == 1


def test_a_diverged_run_is_walked_back_and_damaged_rows_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fabricate.write(SMALL, tmp_path)
    (run.path / "done.json").rename(run.path / "failed.json")
    rows = run.rows()
    rows[-1] |= {"hidden_norms": [1.0, math.inf, math.nan, 1.0, 1.0], "test_samples": 360}
    run.rows_file.write_text("".join(map(to_line, rows)))
    assert main(["audit", str(run.path), "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    assert entry["findings"][0]["value"] == "inf"
    damaged = f"{run.rows_file}, line 1 is damaged: hidden_norms: expected a list of numbers, got 'many'"
    for rows_text, told in (("", "is damaged"), (to_line({**rows[-1], "hidden_norms": "many"}), damaged)):
        run.rows_file.write_text(rows_text)
        assert main(["audit", str(run.path)]) == 2
        said = capsys.readouterr().err
        assert told in said and len(said.splitlines()) == 1


def test_a_bug_in_a_check_is_a_traceback_and_no_damaged_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*_: object) -> None:
        raise AttributeError("planted")

    run = fabricate.write(SMALL, tmp_path)
    (run.path / "done.json").rename(run.path / "failed.json")
    monkeypatch.setattr("faudit.audit.checks.scale.Scale.find", planted)
    with pytest.raises(AttributeError, match="planted"):
        audit(run, OURS, data_dir=None)
