"""The planted-fault benchmark: each fault does what it says, each label is by construction, the table counts right."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from faudit import RunConfig
from faudit.audit.checks.check import Case, Control
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.bench.protocol import faults, wrong_rules
from faudit.bench.protocol import networks as bench
from faudit.bench.protocol.cases import CASES, LATER, NEW, REPORT, SEEN, SET, Planted, half, largest_angle
from faudit.bench.protocol.confusion import Column, document, named, page
from faudit.bench.protocol.networks import Task, held, measured, tasks, whole_lines
from faudit.cli.main import main
from faudit.data import DATASETS
from faudit.errors import StoreError
from faudit.experiment import Experiment, prepare
from faudit.store.rows import Row, to_line
from faudit.train import measure, one_epoch, read
from tests.support import fabricate
from tests.support.cases import HEALTHY

SMALL = RunConfig(width=16, depth=3, epochs=1, batch_size=128, probe_epochs=(1,))
SOUND = fabricate.row(RunConfig(rule="bp", epochs=9), 9, random.Random(0))


def job_of(plant: str, config: RunConfig = SMALL) -> Experiment:
    planted = Planted(healthy=False, why="a test", config=config, plant=plant)
    return planted.planted(prepare(config, DATASETS["digits"](None)))


def row_of(experiment: Experiment) -> dict[str, Any]:
    one_epoch(experiment, 1)
    return measure(experiment, 1, train_loss=None, seconds=0.0)


def test_every_plant_exists_and_no_case_is_another() -> None:
    for name, case in CASES.items():
        assert case.why, name
        assert not case.plant or hasattr(faults, case.plant) or hasattr(wrong_rules, case.plant), name
        assert not case.after or hasattr(faults, case.after), name
    assert len({(case.config, case.plant, case.after) for case in CASES.values()}) == len(CASES)


def test_healthy_is_the_true_gradient_or_feedback_near_the_weights_and_nothing_changed() -> None:
    for name, case in CASES.items():
        unchanged = not (case.plant or case.after or case.config.random_targets)
        true = case.config.rule == "bp" and unchanged
        assert case.healthy is (name == "weight transport" or (unchanged and (true or bool(case.near)))), name
        assert not (case.near and case.config.rule == "bp"), name


def test_both_halves_have_healthy_and_broken_kinds_and_every_kind_that_was_looked_at_is_no_report() -> None:
    assert {half(name) for name in SEEN} == {SET} and len(SEEN) + len(NEW) + len(LATER) == len(CASES)
    kinds = {(half(name), case.healthy): 0 for name, case in CASES.items()}
    for name, case in CASES.items():
        kinds[half(name), case.healthy] += 1
    assert kinds[REPORT, True] >= 6 and kinds[REPORT, False] >= 10
    assert all(CASES[name].near for name in NEW if NEW[name].healthy)
    assert half("kolen-pollack cnn") == SET and half("placebo alone") == REPORT  # by the hash: never by hand


def test_how_near_feedback_must_be() -> None:
    assert largest_angle("learned", 10_000) == 45.0 and largest_angle("signs", 10_000) == 60.0
    assert largest_angle("fixed", 10_000) == pytest.approx(87.134, abs=1e-3)  # cos 0.05, five times 1/√10000


def test_weight_transport_teaches_each_block_with_the_gradient_at_its_tap() -> None:
    experiment = job_of("WeightTransport", SMALL.with_(rule="dfa"))
    reading = read(experiment)
    for credit, gradient in zip(reading.credits, reading.gradients, strict=False):
        torch.testing.assert_close(credit, gradient)
    row = measure(experiment, 1, train_loss=None, seconds=0.0)
    assert row["gamma"] == pytest.approx([1.0] * 3, abs=1e-6) and row["gamma_null_std"] == [None] * 3
    assert not experiment.state.rule_state, "what it teaches with is no feedback of its own"


def test_flipped_signs_are_seen_by_gamma() -> None:
    assert row_of(job_of("Flipped", SMALL.with_(rule="dfa")))["gamma"] == pytest.approx([-1.0] * 3, abs=1e-6)
    assert row_of(job_of("FlippedFA", SMALL.with_(rule="fa")))["gamma"][-1] < -0.5


def test_feedback_that_is_not_used_leaves_no_spread_over_fresh_draws() -> None:
    row = row_of(job_of("FeedbackUnused", SMALL.with_(rule="dfa")))
    assert row["gamma_null_std"] == [0.0] * 3 and row["gamma"] == pytest.approx([1.0] * 3, abs=1e-6)


def test_feedback_is_redrawn_at_every_step() -> None:
    experiment = job_of("FeedbackRedrawn", SMALL.with_(rule="dfa"))
    before = {name: value.clone() for name, value in experiment.state.rule_state.items()}
    x, y = next(iter(experiment.batches.epoch(experiment.state.generators)))
    seen = []
    for _ in range(2):
        experiment.rule.step(experiment.net, experiment.state.params, experiment.state.rule_state, x, y)
        seen.append(experiment.state.rule_state["B.1"].clone())
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], before["B.1"])


@pytest.mark.parametrize(
    ("plant", "config", "blocks"),
    [
        ("BlocksLeftOut", SMALL.with_(rule="dfa"), [0, 1, 2]),
        ("BlocksLeftOutBP", SMALL, [0, 1, 2]),
        ("", SMALL.with_(rule="dfa", clip=1e-12), [0, 1, 2]),
        ("dead_block", SMALL, [1]),
        ("saturated", RunConfig(net="student", width=16, epochs=1, batch_size=128, probe_epochs=(1,)), [0, 1, 2, 3]),
    ],
)
def test_blocks_that_do_not_train_do_not_turn(plant: str, config: RunConfig, blocks: list[int]) -> None:
    turns = row_of(job_of(plant, config))["block_turn"]
    assert all((turn < 1e-5) is (block in blocks) for block, turn in enumerate(turns))


def test_an_exploded_branch_and_a_head_of_rank_one() -> None:
    exploded = row_of(job_of("exploded"))
    assert exploded["hidden_norms"][2] > 1e4 * exploded["hidden_norms"][1]
    lost = row_of(job_of("offset"))
    assert max(lost["precision_agree"]) < 0.5, "float64 has other gradients"
    experiment = job_of("one_direction", SMALL.with_(no_terminal_norm=CASES["one direction"].config.no_terminal_norm))
    head = experiment.state.params["readout.head.weight"].detach().clone()
    assert int(torch.linalg.matrix_rank(head)) == 1
    one_epoch(experiment, 1)
    assert torch.equal(head, experiment.state.params["readout.head.weight"])
    at_last_tap = F.normalize(read(experiment).gradients[-1], dim=1)
    assert float((at_last_tap @ at_last_tap.T).abs().min()) == pytest.approx(1.0, abs=1e-4)
    assert measure(experiment, 1, train_loss=None, seconds=0.0)["reference_rank"][-1] == pytest.approx(1.0)


def made_up(word: str) -> Case:
    """A case on which faudit-1 and faudit-2 give this verdict."""
    spoilt: dict[str, dict[str, Any]] = {
        TRUSTWORTHY: {}, WALK_BACK: {"hidden_norms": [1.0, 99.0]}, INCONCLUSIVE: {"block_turn": None},
    }  # fmt: skip
    row = Row({**HEALTHY, **spoilt[word], "test_samples": 1000, "classes": 10})
    return Case(RunConfig(rule="dfa"), [row], 1000, 10, (Control("frozen", 0.8),))


def test_the_table_counts_what_was_caught_flagged_and_neither() -> None:
    words = {name: TRUSTWORTHY if case.healthy else WALK_BACK for name, case in CASES.items()}
    words |= {"bp": WALK_BACK, "bp vit": INCONCLUSIVE, "dfa as published": TRUSTWORTHY, "sign flipped": INCONCLUSIVE}
    cases = {(name, seed): made_up(words[name]) for name in CASES for seed in (1, 2)}
    result = document(cases, seeds=[1, 2], code="x")
    assert result["columns"]["faudit-3"] == result["columns"]["faudit-1"], "the other checks find nothing in these"
    ours = result["columns"]["faudit-3"][SET]
    healthy, broken = (
        sum(case.healthy is side for name, case in CASES.items() if half(name) == SET) for side in (True, False)
    )
    assert (ours["healthy"]["n"], ours["healthy"]["walked_back"]) == (2 * healthy, 2)
    assert (ours["broken"]["n"], ours["broken"]["walked_back"]) == (2 * broken, 2 * broken - 4)
    assert ours["healthy"]["wrong"] == ["bp (seed 1, 2)"]
    assert ours["broken"]["neither"] == ["sign flipped (seed 1, 2)"] and ours["broken"]["inconclusive"] == 2
    assert ours["broken"]["trustworthy"] == 2 and ours["healthy"]["trustworthy"] == 2 * healthy - 4
    others = result["columns"]["faudit-3"][REPORT]
    assert others["healthy"]["n"] + ours["healthy"]["n"] == 2 * sum(case.healthy for case in CASES.values())
    assert others["broken"]["share"] == 1.0 and others["healthy"]["share"] == 0.0 and not others["healthy"]["wrong"]
    text = page(result)
    assert f"{2 * broken - 4} of {2 * broken}" in text and f"{others['broken']['n']} of {others['broken']['n']}" in text
    assert "| dfa as published | set | broken: the paper's DFA |" in text


def test_a_column_names_each_case_once() -> None:
    assert named([("bp", 1), ("bp", 2), ("bp vit", 1)]) == ["bp (seed 1, 2)", "bp vit (seed 1)"]
    shares = Column("x", {("bp", 1): WALK_BACK, ("bp", 2): TRUSTWORTHY}).shares(SET, healthy=True)
    assert shares["share"] == 0.5 and shares["interval"][0] < 0.5 < shares["interval"][1]


TINY = {
    "fine": Planted(True, "sound", SMALL.with_(probe_epochs=())),
    "left out": Planted(False, "blocks", SMALL.with_(probe_epochs=(), rule="dfa"), "BlocksLeftOut"),
}


def test_a_measured_case_is_reproducible_and_its_control_is_a_frozen_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "CASES", TINY)
    wanted = tasks([5])
    assert [task.config.rule for task in wanted] == ["bp", "frozen-bp", "dfa", "frozen-dfa"]
    (rows, right) = zip(*(measured(Task("left out", TINY["left out"].config)) for _ in range(2)), strict=True)
    assert right[0] == right[1]
    timings = ("seconds", "probe_seconds")
    assert {k: v for k, v in rows[0].items() if k not in timings} == {
        k: v for k, v in rows[1].items() if k not in timings
    }
    assert rows[0]["block_turn"] == [0.0] * 3


def test_what_is_planted_after_training_is_in_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(net="mlp", rule="kolen-pollack", sizes=(8,), epochs=3, batch_size=32, lr=3e-3, weight_decay=3.0)
    kinds = {"near": Planted(True, "a test", config), "far": Planted(False, "a test", config, after="swapped")}
    monkeypatch.setattr(bench, "CASES", kinds)
    rows = {name: measured(Task(name, config))[0] for name in kinds}
    assert rows["near"]["weight_angle"][0] < 45 < rows["far"]["weight_angle"][0]
    assert rows["near"]["test_acc"] == rows["far"]["test_acc"], "the weights are the same"


def test_a_row_is_known_by_what_is_planted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for plant, after in (("", ""), ("feedback_zero", ""), ("", "swapped"), ("feedback_zero", "swapped")):
        monkeypatch.setattr(bench, "CASES", {"one": Planted(False, "a test", SMALL, plant, after)})
        keys.add(Task("one", SMALL).key)
    assert len(keys) == 4 and Task("", SMALL).key == f"control {SMALL.run_id}"


def test_the_digest_of_the_code_is_of_files_that_exist() -> None:
    assert all((bench.PACKAGE / entry).exists() for entry in bench.MADE_BY) and len(bench.made_by()) == 16


def test_rows_are_kept_line_by_line_and_a_torn_last_line_is_none(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    line = json.dumps({"key": "a", "code": "c", "row": to_line(Row(SOUND, test_acc=0.5))})
    out.write_text(line + "\n" + line[:20])
    assert held(out)["a"]["row"]["test_acc"] == 0.5 and held(tmp_path / "none") == {}
    whole_lines(out)  # so that what is appended stands on a line of its own
    assert out.read_text() == line + "\n"
    out.write_text(line[:20] + "\n" + line + "\n")
    with pytest.raises(StoreError, match="line 1, is not a measured row"):
        held(out)


@pytest.mark.slow
def test_the_command_measures_what_is_missing_and_judges_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Uses every case with one seed and one short epoch of training. Everything after the rows is real."""
    rows = tmp_path / "rows.jsonl"
    code = bench.made_by()
    for task in tasks([7]):
        config = task.config.with_(epochs=1, **({"width": 16} if "width" in task.config.settings else {}))
        if task.config.net == "vit" or task.config.settings.get("depth", 0) > 8:
            config = config.with_(depth=2)
        row, right = Row(SOUND | HEALTHY, test_acc=0.5, test_samples=360, classes=10), None
        if task.case in ("", "bp", "dfa as published"):
            row, right = measured(Task(task.case, config))
        with rows.open("a") as stream:
            stream.write(json.dumps({"key": task.key, "code": code, "row": to_line(row), "test_right": right}) + "\n")
    assert main(["bench", "protocol", "--seeds", "7", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["columns"]) == ["faudit-4", "faudit-3", "faudit-2", "faudit-1", "paper", "accuracy + Γ"]
    assert (tmp_path / "confusion.md").exists() and len(rows.read_text().splitlines()) == len(tasks([7]))
