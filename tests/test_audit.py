"""The audit: each check passes one case and fires on another, the judge is a table, and the command says the same."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from faudit import RunConfig, fit
from faudit.audit import CHECKS
from faudit.audit.audit import control_of
from faudit.audit.check import FIRED, INVALID, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED, Case, Control, Finding
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, decide, judge
from faudit.audit.null import score
from faudit.audit.protocol import PROTOCOLS
from faudit.cli import main
from faudit.rows import to_line
from tests import fabricate

OURS, STUDY = PROTOCOLS["faudit-1"], PROTOCOLS["study"]
HEALTHY: dict[str, Any] = {
    "epoch": 9,
    "hidden_norms": [1.0, 2.0, 3.0, 4.0, 5.0],
    "grad_norms": [1e-2] * 5,
    "precision_agree": [1.0] * 5,
    "stability": 0.1,
    "gamma": [0.4, 0.2, 0.2, 0.2],
    "gamma_null_mean": [0.0] * 4,
    "gamma_null_std": [0.02] * 4,
    "gamma_chance": [0.01] * 4,
    "rho_valid": [True] * 4,
    "rho_bp": [0.999] * 4,
    "rho_random": [0.0] * 4,
    "block_turn": [0.3] * 4,
    "reference_rank": [5.0] * 5,
    "test_acc": 0.9,
}


def case(rule: str = "dfa", frozen: float | None = 0.8, samples: int = 1000, **entries: Any) -> Case:
    rows = [{**HEALTHY, "epoch": 0}, {**HEALTHY, **entries}]
    controls = () if frozen is None else (Control("frozen", frozen),)
    return Case(RunConfig(rule=rule), rows, samples, 10, controls)


def status(name: str, one: Case, protocol: Any = OURS) -> str:
    return CHECKS[name]().find(one, protocol).status


def test_a_healthy_case_passes_every_check_of_both_protocols() -> None:
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
        ("reference", STUDY, {"grad_norms": [1.0, 1.0, 1.0, 1.0, 9e-5]}),
        ("stability", OURS, {"stability": 0.31}),
        ("depth", OURS, {"test_acc": 0.7}),
        ("depth", STUDY, {"test_acc": 0.81}),
        ("feedback", OURS, {"gamma_null_std": [0.0] * 4}),
        ("null", OURS, {"gamma": [0.9, 0.01, -0.01, 0.0]}),
        ("null", OURS, {"gamma": [0.9, -0.3, -0.3, -0.3]}),
        ("null", OURS, {"gamma": [0.9, 0.3, 0.3, -1.0], "gamma_null_std": [0.02, 0.02, 0.02, 0.0]}),
        ("null", OURS, {"gamma": [-1.0, 1.0, 1.0, 1.0], "gamma_null_std": [None] * 4, "gamma_null_mean": [None] * 4}),
        ("movement", OURS, {"block_turn": [0.3, 0.3, 0.0, 0.3]}),
        ("rank", OURS, {"reference_rank": [5.0, 5.0, 1.01, 5.0, 5.0]}),
    ],
)
def test_a_check_fires_on_what_it_is_for(name: str, protocol: Any, entries: dict[str, Any]) -> None:
    assert status(name, case(), protocol) == PASSED
    found = CHECKS[name]().find(case(**entries), protocol)
    assert found.status == FIRED and found.first_fire in (9, None)
    if name != "stability":
        assert judge(case(**entries), protocol).verdict == WALK_BACK


def test_a_label_never_decides() -> None:
    verdict = judge(case(stability=0.99), OURS)
    assert verdict.verdict == TRUSTWORTHY and verdict.labels[0].status == FIRED


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("scale", {"hidden_norms": [None, None, None, None, 5.0]}), ("reference", {"precision_agree": None}),
        ("depth", {"frozen": None}), ("null", {}), ("feedback", {}), ("movement", {"block_turn": [None] * 4}),
        ("rank", {"reference_rank": None}),
    ],
)  # fmt: skip
def test_what_was_not_measured_is_never_a_pass(name: str, entries: dict[str, Any]) -> None:
    one = case(**entries)
    if name in ("null", "feedback"):
        one = Case(
            one.config, [{k: v for k, v in one.last.items() if not k.startswith("gamma_null")}], 1000, 10, one.frozen
        )
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


def test_an_undefined_gamma_is_undecided_and_two_classes_are_not_asked_for_rank() -> None:
    assert status("null", case(gamma=[0.9, None, 0.2, 0.2])) == UNDECIDED
    one = case(reference_rank=[1.0] * 5)
    two = Case(one.config, one.rows, one.samples, 2, one.frozen)
    assert status("rank", one) == FIRED and status("rank", two) == NOT_APPLICABLE


def test_depth_is_the_share_of_errors_removed_with_an_interval_by_hand() -> None:
    found = CHECKS["depth"]().find(case(test_acc=0.9, frozen=0.8, samples=1000), OURS)
    errors, before = 100.5, 200.5
    ratio = errors / before
    half = 1.96 * math.sqrt(1 / errors - 1 / 1001 + 1 / before - 1 / 1001)
    assert found.value == pytest.approx(1 - ratio)
    assert found.low == pytest.approx(1 - ratio * math.exp(half)) and found.high == pytest.approx(
        1 - ratio * math.exp(-half)
    )


def test_two_points_on_easy_data_are_enough_and_too_few_samples_leave_it_undecided() -> None:
    assert status("depth", case(test_acc=0.983, frozen=0.969, samples=360)) == PASSED
    assert status("depth", case(test_acc=0.983, frozen=0.969, samples=360), STUDY) == FIRED
    assert status("depth", case(test_acc=0.80, frozen=0.80, samples=100)) == UNDECIDED
    assert judge(case(test_acc=0.80, frozen=0.80, samples=100), OURS).verdict == INCONCLUSIVE
    assert status("depth", case(test_acc=0.80, frozen=0.85, samples=10_000)) == FIRED


def test_a_run_of_a_few_epochs_is_not_asked_about_depth() -> None:
    young = case(test_acc=0.2, frozen=0.8)
    young = Case(RunConfig(rule="dfa", epochs=4), young.rows, 1000, 10, young.frozen)
    assert status("depth", young) == UNDECIDED and status("depth", young, STUDY) == FIRED
    assert status("depth", Case(RunConfig(rule="dfa", epochs=5), young.rows, 1000, 10, young.frozen)) == FIRED


def test_the_null_score_leaves_out_block_0_and_blocks_without_a_null() -> None:
    row = {
        "gamma": [9.0, 0.3, 0.1, 1.0],
        "gamma_null_mean": [0.0, 0.1, 0.0, 1.0],
        "gamma_null_std": [1.0, 0.03, 0.04, 0.0],
    }
    assert score(row) == pytest.approx((0.2 - 0.05) / (0.05 / 2))
    assert score({**row, "gamma_null_std": [1.0, 0.0, 0.0, None]}) is None


def test_first_fire_is_the_first_logged_epoch() -> None:
    rows = [
        {**HEALTHY, "epoch": epoch, "hidden_norms": [1.0, grown]} for epoch, grown in enumerate([1.0, 60.0, 2.0, 70.0])
    ]
    found = CHECKS["scale"]().find(Case(RunConfig(), rows, 10, 10), OURS)
    assert found.first_fire == 1 and found.status == FIRED


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


SMALL = RunConfig(epochs=2, width=16, depth=2, batch_size=128)


def test_the_command_judges_a_run_names_a_missing_control_and_makes_it_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(SMALL.with_(rule="dfa"), tmp_path)
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert main(["audit", str(run.path), "--json"]) in (1, 3)
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    findings = {finding["check"]: finding["status"] for finding in entry["findings"]}
    assert findings["depth"] == NOT_MEASURED and findings["reference"] == PASSED and NOT_MEASURED not in (
        findings["scale"], findings["feedback"], findings["null"],
    )  # fmt: skip
    assert before == {path.name: path.read_bytes() for path in run.path.iterdir()}, "an audit changes nothing of a run"
    page = tmp_path / "audit.md"
    main(["audit", run.name, "--runs", str(tmp_path), "--with-controls", "--markdown", str(page)])
    assert (tmp_path / control_of(run.config()).run_id / "done.json").exists()
    assert "| depth |" in page.read_text() and "no matched run" not in page.read_text()


def test_an_unfinished_or_unknown_run_or_protocol_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(SMALL, tmp_path)
    (run.path / "done.json").unlink()
    for words, told in (
        ([str(run.path)], "needs a finished run"),
        (["nothing-here"], "unknown run"),
        ([str(run.path), "--protocol", "faudit-2"], "did you mean 'faudit-1'?"),
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
    rows[-1] |= {"hidden_norms": [1.0, math.inf, math.nan], "test_samples": 360}
    run.rows_file.write_text("".join(map(to_line, rows)))
    assert main(["audit", str(run.path), "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    assert entry["findings"][0]["value"] == "inf"
    for rows_text, told in (("", "no rows"), (to_line({**rows[-1], "hidden_norms": "many"}), "is damaged")):
        run.rows_file.write_text(rows_text)
        assert main(["audit", str(run.path)]) == 2
        said = capsys.readouterr().err
        assert told in said and len(said.splitlines()) == 1
