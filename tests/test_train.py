"""The loop: rows as promised, divergence with a place, results that depend on the config and on nothing else."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from faudit.config import RunConfig
from faudit.data import DATASETS
from faudit.errors import ConfigError, DataError, StoreError
from faudit.experiment import Experiment, prepare
from faudit.optimizers import OPTIMIZERS
from faudit.rules.bp import BP
from faudit.rules.rule import Step
from faudit.store.checkpoint import weights
from faudit.store.run import Run
from faudit.train import fit, learning_rate, one_epoch, read, stream, test_accuracy
from tests.support.nets import tiny_dataset
from tests.support.runs import QUICK, same_weights, without_timings

test_accuracy.__test__ = False  # type: ignore[attr-defined]  # a function of ours, not a test


def test_a_run_has_every_entry_at_epoch_0_and_after_each_epoch(tmp_path: Path) -> None:
    run = fit(QUICK.with_(rule="dfa"), tmp_path)
    rows = run.rows()
    assert run.status == "done" and [row["epoch"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert list(row) == [
            "epoch", "hidden_norms", "grad_norms", "grad_norms_frobenius", "gamma", "gamma_undefined", "fitted",
            "acc_eval", "loss_eval", "weight_cosine", "weight_angle", "test_acc", "eval_samples", "test_samples",
            "classes", "train_loss", "seconds", "probe_seconds",
        ]  # fmt: skip
        assert [len(row[name]) for name in ("hidden_norms", "grad_norms", "grad_norms_frobenius")] == [3, 3, 3]
        assert len(row["gamma"]) == len(row["gamma_undefined"]) == 2
    assert rows[0]["train_loss"] is None and all(row["train_loss"] > 0 for row in rows[1:])
    assert [row["test_acc"] is not None for row in rows] == [True, False, False, True]
    assert rows[-1]["acc_eval"] == pytest.approx(rows[-1]["test_acc"])  # 360 test samples: the buffer is all of them
    outcome = run.outcome()
    assert outcome is not None and outcome["test_acc"] == rows[-1]["test_acc"] and len(outcome["weights_sha256"]) == 64


def test_log_every_and_the_last_epoch(tmp_path: Path) -> None:
    run = fit(QUICK.with_(epochs=5, log_every=2), tmp_path)
    assert [row["epoch"] for row in run.rows()] == [0, 2, 4, 5]


def test_the_test_set_is_measured_every_ten_epochs_and_at_the_end(tmp_path: Path) -> None:
    run = fit(QUICK.with_(epochs=12, width=4, batch_size=1437), tmp_path)
    assert [row["epoch"] for row in run.rows() if row["test_acc"] is not None] == [0, 10, 12]


def test_probing_changes_no_weight(tmp_path: Path) -> None:
    often, seldom = (fit(QUICK.with_(rule="fa", log_every=every), tmp_path) for every in (1, 100))
    assert same_weights(often, seldom)


def test_a_run_is_the_same_again_and_differs_with_the_seed(tmp_path: Path) -> None:
    one, again = (fit(QUICK.with_(rule="dfa"), tmp_path / name) for name in "ab")
    other = fit(QUICK.with_(rule="dfa", seed=43), tmp_path)
    assert without_timings(one.rows()) == without_timings(again.rows()) and same_weights(one, again)
    assert not same_weights(one, other)


def test_the_global_generator_and_thread_count_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(1)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    config = QUICK.with_(threads=2, epochs=1)
    one = fit(config, tmp_path / "a")
    assert torch.equal(before, torch.get_rng_state()) and torch.get_num_threads() == threads
    torch.manual_seed(2)
    assert same_weights(one, fit(config, tmp_path / "b"))


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    run = fit(QUICK, tmp_path)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.path.iterdir()}
    assert list(stream(QUICK, run)) == []
    assert before == {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.path.iterdir()}


@pytest.mark.parametrize("rule", ["bp", "dfa", "frozen-dfa"])
def test_frozen_blocks_stay_and_others_move(tmp_path: Path, rule: str) -> None:
    config = QUICK.with_(rule=rule)
    start = prepare(config, DATASETS["digits"](None)).state.params
    end = weights(fit(config, tmp_path).checkpoint)
    moved = {name for name in start if not torch.equal(start[name].detach(), end[name])}
    still = {name for name in start if name.startswith("blocks.")} if rule == "frozen-dfa" else set()
    assert moved == start.keys() - still


def test_the_schedule_is_torchs_cosine() -> None:
    config = RunConfig(lr=0.3, epochs=7)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    for epoch in range(1, 8):
        assert learning_rate(config, epoch, 0.3) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()


def test_the_step_schedule_is_torchs() -> None:
    config = RunConfig(lr=0.8, epochs=7, schedule="step", milestones=(2, 5), lr_factor=0.25)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.8)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 5], gamma=0.25)
    for epoch, by_hand in zip(range(1, 8), [0.8, 0.8, 0.2, 0.2, 0.2, 0.05, 0.05], strict=True):
        assert learning_rate(config, epoch, 0.8) == pytest.approx(by_hand, rel=1e-12)
        assert learning_rate(config, epoch, 0.8) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()


def test_the_cooldown_schedule_is_constant_and_then_linear() -> None:
    """The schedule of Löwe's forward-forward: with epochs e from 0, 2·(1 + E − e)/E for e > E/2."""
    config = RunConfig(lr=0.3, epochs=10, schedule="cooldown")
    found = [learning_rate(config, epoch, 0.3) for epoch in range(1, 11)]
    assert found == pytest.approx([0.3] * 7 + [0.24, 0.18, 0.12], rel=1e-12)


def test_the_constant_schedule_is_constant() -> None:
    config = RunConfig(lr=0.3, epochs=5, schedule="constant")
    assert [learning_rate(config, epoch, 0.3) for epoch in range(1, 6)] == [0.3] * 5


@pytest.mark.parametrize("rule", ["bp", "dfa"])
def test_divergence_ends_the_run_with_its_place_and_keeps_the_rows(tmp_path: Path, rule: str) -> None:
    config = QUICK.with_(rule=rule, optimizer="sgd", lr=1e30, weight_decay=0.0, epochs=4)
    run = fit(config, tmp_path)
    rows = run.rows()
    assert run.status == "failed"
    outcome = run.outcome()
    assert outcome is not None and outcome["epoch"] == rows[-1]["epoch"] >= 1 and outcome["tap"] in (0, 1, 2)
    assert rows[0]["epoch"] == 0 and math.isfinite(rows[0]["loss_eval"])
    assert not all(math.isfinite(norm) for norm in rows[-1]["hidden_norms"])
    for line in run.rows_file.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    assert not (run.path / "done.json").exists()
    assert list(stream(config, run)) == []


def test_divergence_is_noticed_between_two_logged_epochs(tmp_path: Path) -> None:
    config = QUICK.with_(optimizer="sgd", lr=1e30, weight_decay=0.0, epochs=50, log_every=50)
    run = fit(config, tmp_path)
    outcome = run.outcome()
    assert run.status == "failed" and outcome is not None and outcome["epoch"] < 50


def test_the_tap_of_a_divergence_is_the_first_that_overflowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from faudit import train

    original = train.one_epoch

    def spoiled(experiment: Experiment, epoch: int) -> float:
        loss = original(experiment, epoch)
        if epoch == 2:
            with torch.no_grad():
                experiment.state.params["blocks.1.w2.bias"].fill_(math.inf)
        return loss

    monkeypatch.setattr(train, "one_epoch", spoiled)
    outcome = fit(QUICK, tmp_path).outcome()
    assert outcome is not None and (outcome["epoch"], outcome["tap"]) == (2, 2)


def test_the_evaluation_buffer_is_fixed_and_never_larger_than_the_test_set() -> None:
    data = tiny_dataset(test=20)
    first, second = (read(prepare(QUICK.with_(eval_size=8, seed=seed, batch_size=8), data)) for seed in (1, 2))
    assert torch.equal(first.x, second.x) and len(first.x) == 8
    assert len(read(prepare(QUICK.with_(batch_size=8), data)).x) == 20


def test_test_accuracy_counts_every_test_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = prepare(QUICK.with_(batch_size=8), tiny_dataset())
    logits = experiment.net.forward(experiment.state.params, experiment.dataset.normalise(experiment.dataset.test_x))
    want = float((logits.argmax(1) == experiment.dataset.test_y).double().mean())
    for chunk in (3, 7, 1000):
        monkeypatch.setattr("faudit.train.TEST_CHUNK", chunk)
        assert test_accuracy(experiment) == pytest.approx(want)


def test_settings_that_would_change_nothing_are_refused(tmp_path: Path) -> None:
    for config in (QUICK.with_(clip=2.0), QUICK.with_(credit_eps=1e-3), QUICK.with_(momentum=0.5)):
        with pytest.raises(ConfigError, match="does not read"):
            fit(config, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_this_machine_lacks_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(ConfigError, match="expected one that this machine has"):
        fit(QUICK.with_(device="cuda:0"), tmp_path)
    with pytest.raises(DataError, match="batch-size"):
        fit(QUICK.with_(batch_size=5000), tmp_path)
    assert not list(tmp_path.iterdir())


def test_rows_missing_under_a_checkpoint_are_noticed(tmp_path: Path) -> None:
    run = Run(tmp_path / QUICK.run_id)
    rows = stream(QUICK, run)
    next(rows), next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    run.rows_file.unlink()
    with pytest.raises(StoreError, match=r"its rows do not match the digest in last.safetensors"):
        list(stream(QUICK, run))


def test_a_resume_on_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path / QUICK.run_id)
    rows = stream(QUICK, run)
    next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    monkeypatch.setattr("faudit.data.dataset.Dataset.fingerprint", lambda self: "other")
    with pytest.raises(StoreError, match="not those that"):
        list(stream(QUICK, run))


@dataclass(frozen=True)
class Alternating(BP):
    """Trains everything at even calls and the readout alone at odd ones."""

    def trains(self, name: str) -> bool:
        return CALLS[0] % 2 == 0 or name.startswith("readout.")

    def step(self, *args: Any, **named: Any) -> Step:
        CALLS[0] += 1
        return super().step(*args, **named)


CALLS = [0]


def test_a_parameter_left_out_of_a_step_is_left_alone() -> None:
    """Its gradient of the step before must not be applied again."""
    config = RunConfig(rule="bp", width=12, depth=2, batch_size=30, weight_decay=0.0)
    experiment = replace(prepare(config, tiny_dataset()), rule=Alternating())
    CALLS[0] = 0
    one_epoch(experiment, 1)  # two batches: the first trains the readout alone, the second everything
    counts = {
        name: float(experiment.state.optimizer.state_of(value)["step"])
        for name, value in experiment.state.params.items()
    }
    assert counts["readout.head.weight"] == 2 and counts["embed.weight"] == 1
    one_epoch(experiment, 1)
    assert float(experiment.state.optimizer.state_of(experiment.state.params["embed.weight"])["step"]) == 2


@dataclass(frozen=True)
class Strided(BP):
    """The gradients of BP with other strides: matrices column by column, biases in every second place."""

    def step(self, *args: Any, **named: Any) -> Step:
        step = super().step(*args, **named)
        turned = {
            name: gradient.T.contiguous().T if gradient.ndim > 1 else gradient.repeat_interleave(2)[::2]
            for name, gradient in step.grads.items()
        }
        return replace(step, grads=turned)


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_a_gradient_of_any_strides_is_applied_as_it_is(optimizer: str) -> None:
    config = RunConfig(rule="bp", width=12, depth=2, batch_size=30, optimizer=optimizer)
    plain, strided = prepare(config, tiny_dataset()), prepare(config, tiny_dataset())
    strided = replace(strided, rule=Strided())
    assert one_epoch(plain, 1) == one_epoch(strided, 1)
    for name, value in plain.state.params.items():
        assert torch.equal(value, strided.state.params[name])
