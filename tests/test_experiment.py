"""A configuration becomes its parts: as many as it asks for, of the type it asks for, by the seed alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import prepare, threads
from faudit.nets import NETS
from faudit.rules import RULES
from faudit.train import fit
from tests.support.nets import tiny_dataset

SMALL = RunConfig(rule="dfa", width=12, depth=2, batch_size=8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_net_and_rule_are_those_of_the_config_in_its_type(dtype: str) -> None:
    experiment = prepare(SMALL.with_(dtype=dtype, penalty=0.5), tiny_dataset())
    assert type(experiment.net) is NETS["resmlp"] and type(experiment.rule) is RULES["dfa"]
    assert experiment.net.blocks == 2 and getattr(experiment.rule, "penalty") == 0.5  # noqa: B009  # not every rule has one
    state = experiment.state
    for value in (*state.params.values(), *state.rule_state.values()):
        assert value.dtype == getattr(torch, dtype)
    assert state.trained.keys() == state.params.keys(), "fixed feedback is not trained"
    assert not any(state.optimizer.state_of(value) for value in state.params.values())


def test_the_weights_before_the_first_step_are_kept_apart() -> None:
    experiment = prepare(SMALL, tiny_dataset())
    before = {name: value.clone() for name, value in experiment.initial.items()}
    with torch.no_grad():
        for value in experiment.state.params.values():
            value.add_(1.0)
    assert all(torch.equal(experiment.initial[name], before[name]) for name in before)


def test_threads_are_as_before_whatever_happens_inside() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_all_stray_settings_are_refused_at_once_and_before_data_is_read(tmp_path: Path) -> None:
    config = RunConfig(rule="bp", clip=2.0, patch=7, momentum=0.5, data="cifar10")
    with pytest.raises(ConfigError) as caught:
        fit(config, tmp_path)
    assert [line.split(" does not read ")[0] for line in str(caught.value).splitlines()] == [
        "net resmlp", "rule bp", "optimizer adamw",
    ]  # fmt: skip


def test_torchs_default_dtype_changes_no_weight() -> None:
    def start() -> dict[str, Tensor]:
        state = prepare(SMALL, tiny_dataset()).state
        return {**state.params, **state.rule_state}

    plain = start()
    torch.set_default_dtype(torch.float64)
    try:
        odd = start()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(plain[name], odd[name]) for name in plain)


@pytest.mark.parametrize(("samples", "batch_size", "smallest"), [(60, 1, 1), (61, 20, 1), (62, 20, 2), (60, 60, 60)])
def test_a_batch_of_one_is_refused_under_a_batch_norm_before_the_first_step(
    samples: int, batch_size: int, smallest: int
) -> None:
    config = RunConfig(net="mlp", sizes=(5,), batch_norm=True, batch_size=batch_size)
    if smallest > 1:
        prepare(config, tiny_dataset(train=samples))
        return
    with pytest.raises(ConfigError, match=r"expected at least 2 samples in every batch .* got 1 in the last batch"):
        prepare(config, tiny_dataset(train=samples))
    prepare(config.with_(batch_norm=False), tiny_dataset(train=samples))


def test_running_statistics_are_kept_and_not_trained() -> None:
    state = prepare(RunConfig(net="mlp", sizes=(5,), batch_norm=True, batch_size=8), tiny_dataset()).state
    assert state.params.keys() - state.trained.keys() == {
        "blocks.0.norm.running_mean", "blocks.0.norm.running_var",
    }  # fmt: skip
