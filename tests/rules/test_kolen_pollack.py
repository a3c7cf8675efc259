"""Kolen–Pollack: the feedback gets the updates of its weight, so their difference is constant or decays, by law."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.experiment import Experiment, prepare
from faudit.store.run import Run
from faudit.train import fit, learning_rate, one_epoch, stream
from tests.support.nets import Setup, tiny_dataset
from tests.support.runs import identical

STEPS = 4  # of an epoch: 60 samples in batches of 16
OPTIMIZERS = ["sgd", "adamw"]


def trained(epochs: int, **settings: Any) -> tuple[Experiment, dict[str, Tensor], dict[str, Tensor]]:
    """A run of some epochs, and W − B before and after it."""
    recipe = {"rule": "kolen-pollack", "depth": 2, "width": 5, "batch_size": 16, "epochs": 5, "dtype": "float64"}
    config = RunConfig(**(recipe | settings))
    experiment = prepare(config, tiny_dataset())
    before = differences(experiment)
    for epoch in range(1, epochs + 1):
        one_epoch(experiment, epoch)
    return experiment, before, differences(experiment)


def differences(experiment: Experiment) -> dict[str, Tensor]:
    live = experiment.state
    return {name: (live.params[name[2:]] - value).detach().clone() for name, value in live.rule_state.items()}


def test_the_gradient_of_the_feedback_is_that_of_its_weight(net_name: str) -> None:
    setup = Setup("kolen-pollack", net_name)
    grads = setup.grads()
    assert setup.state and all(torch.equal(grads[name], grads[name.removeprefix("B.")]) for name in setup.state)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_without_decay_the_difference_of_weight_and_feedback_is_constant(optimizer: str) -> None:
    experiment, before, after = trained(
        3, optimizer=optimizer, weight_decay=0.0, lr=0.5 if optimizer == "sgd" else 0.05
    )
    for name, difference in before.items():
        torch.testing.assert_close(after[name], difference, rtol=0.0, atol=1e-13)
        start, now = experiment.initial[name[2:]], experiment.state.params[name[2:]].detach()
        assert float((now - start).norm()) > 0.01, "the weights must have moved"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_with_decay_the_difference_shrinks_by_the_decay_of_every_step(optimizer: str) -> None:
    experiment, before, after = trained(5, optimizer=optimizer, weight_decay=0.5, lr=0.05)
    config = experiment.config
    factor = prod((1.0 - 0.5 * learning_rate(config, epoch, config.lr)) ** STEPS for epoch in range(1, 6))
    assert factor < 0.8
    for name, difference in before.items():
        torch.testing.assert_close(after[name], factor * difference, rtol=1e-10, atol=1e-13)


def test_the_feedback_of_frozen_blocks_stays_and_that_of_the_readout_learns() -> None:
    experiment, _, _ = trained(0, rule="frozen-kolen-pollack")
    before = {name: value.detach().clone() for name, value in experiment.state.rule_state.items()}
    one_epoch(experiment, 1)
    changed = {name for name, value in experiment.state.rule_state.items() if not torch.equal(value, before[name])}
    assert changed == {"B.readout.head.weight"}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_that_was_stopped_between_row_and_checkpoint_resumes_to_the_same_bits(
    tmp_path: Path, optimizer: str
) -> None:
    config = RunConfig(rule="kolen-pollack", epochs=3, width=16, depth=2, batch_size=128, optimizer=optimizer, lr=0.01)
    run = Run(tmp_path / "a" / config.run_id)
    rows = stream(config, run)
    for _ in range(3):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    assert run.status == "stopped"
    identical(fit(config, tmp_path / "a"), fit(config, tmp_path / "b"))
