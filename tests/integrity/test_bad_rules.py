"""What a rule, its net, its state and its settings can get wrong: each is one clear line, and nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from faudit.cli.main import main
from faudit.config import RunConfig, command
from faudit.data import DATASETS
from faudit.experiment import prepare
from faudit.rules import RULES
from faudit.store import checkpoint
from faudit.store.run import Run
from faudit.train import fit, stream
from tests.support.nets import Setup

TINY = {"net": "mlp", "sizes": (6, 6), "batch_size": 256, "train_size": 512, "epochs": 2, "eval_size": 32}


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str]:
    """The exit code of a command and its only line on stderr."""
    code = main(words)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("faudit: "), error
    return code, error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--rule", "forward-forward", "--net", "resmlp"],
            "cannot train net resmlp: forward-forward needs plain layers",
        ),
        (["--rule", "pepita", "--net", "vit"], "cannot train net vit: PEPITA is defined for vectors"),
        (["--rule", "ep", "--net", "cnn", "--energy", "layered"], "cannot train net cnn: the layered energy needs"),
        (["--rule", "dfa", "--beta", "0.7"], "rule dfa does not read beta: leave it out"),
        (["--rule", "dfa", "--beta", "0.5"], "rule dfa does not read beta: leave it out"),  # the default of ep
        (["--net", "resmlp", "--patch", "4"], "net resmlp does not read patch: leave it out"),
        (["--rule", "bp", "--mirror-lr", "0.5"], "rule bp does not read mirror-lr: leave it out"),
        (["--rule", "ep", "--beta", "0"], "beta: expected a finite number > 0, got '0'"),
        (["--net", "mlp", "--batch-norm", "--batch-size", "1"], "expected at least 2 samples in every batch for the"),
    ],
)
def test_what_cannot_work_is_one_line_and_writes_nothing(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = said(capsys, ["train", *words, "--epochs", "1", "--runs", str(tmp_path)])
    assert code == 2 and problem in error and not list(tmp_path.iterdir())


def without(state: dict[str, Tensor], name: str) -> None:
    state.pop(name)


def cut(state: dict[str, Tensor], name: str) -> None:
    state[name] = state[name].flatten()[:-1].clone()


@pytest.mark.parametrize(("spoil", "problem"), [(without, "a difference in"), (cut, "expected torch.float32 [")])
@pytest.mark.parametrize("rule", ["fa-weights", "weight-mirror", "local-loss"])  # fixed, changing and trained state
def test_state_that_is_missing_or_has_another_shape_stops_a_resume_and_an_audit(
    rule: str,
    spoil: Callable[[dict[str, Tensor], str], None],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = RunConfig(rule=rule, **TINY)
    stopped = Run(tmp_path / "stopped" / config.run_id)
    rows = stream(config, stopped)
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    ended = fit(config, tmp_path / "ended")
    for run in (stopped, ended):
        live = prepare(config, DATASETS["digits"](None)).state
        epoch = checkpoint.restore(run, live)
        held = dict(live.rule_state)
        name = next(name for name, value in held.items() if value.ndim == 2)
        spoil(held, name)
        checkpoint.save(run.checkpoint, replace(live, rule_state=held), epoch, ties=run.ties())
    for words in (command(config, runs=str(tmp_path / "stopped")).split()[1:], ["audit", str(ended.path)]):
        code, error = said(capsys, words)
        assert code == 2 and "is damaged: " in error and problem in error and name in error


def test_a_relaxation_that_diverges_ends_as_failed_with_its_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(rule="ep", step_size=40.0, **TINY)
    assert main(command(config, runs=str(tmp_path)).split()[1:]) == 1
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("faudit: diverged in the nudged phase: ") and "failed.json" in error
    outcome = json.loads((tmp_path / config.run_id / "failed.json").read_text())
    assert outcome["phase"] == "nudged" and outcome["epoch"] == 1


@pytest.mark.parametrize("rule", RULES.declaring)
def test_a_batch_of_one_class_and_a_batch_of_one_sample_are_batches_like_others(rule: str) -> None:
    setup = Setup(rule, "mlp-relu")
    setup.y = torch.zeros_like(setup.y)
    several = setup.step()
    setup.x, setup.y = setup.x[:1], setup.y[:1]
    for step in (several, setup.step()):
        assert bool(step.loss.isfinite()) and all(bool(value.isfinite().all()) for value in step.grads.values())
