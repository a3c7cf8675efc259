"""A checkpoint comes back bit for bit, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import CheckpointError
from faudit.experiment import Experiment, prepare
from faudit.optimizers import OPTIMIZERS
from faudit.store import checkpoint
from faudit.store.run import Run
from faudit.train import one_epoch
from tests.support.nets import tiny_dataset

CONFIG = RunConfig(rule="dfa", depth=2, width=5, batch_size=16)


def trained(config: RunConfig = CONFIG) -> Experiment:
    experiment = prepare(config, tiny_dataset())
    one_epoch(experiment, 1)
    return experiment


def everything(state: checkpoint.TrainState) -> dict[str, Tensor]:
    """All that decides how a run goes on, gathered without the code under test."""
    stored = {name: state.optimizer.state_of(value) for name, value in (state.params | state.rule_state).items()}
    return {
        **{f"net {name}": value for name, value in state.params.items()},
        **{f"rule {name}": value for name, value in state.rule_state.items()},
        **{f"rng {name}": generator.get_state() for name, generator in state.generators.items()},
        **{f"optimizer {place} {name}": value for place in stored for name, value in stored[place].items()},
    }


def begun(path: Path, config: RunConfig = CONFIG) -> Run:
    run = Run(path)
    run.begin(config, {})
    return run


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Run, Experiment]:
    run, experiment = begun(tmp_path), trained()
    checkpoint.save(run.checkpoint, experiment.state, 1, ties=run.ties())
    return run, experiment


@pytest.mark.parametrize("odd", [torch.bool, torch.float64, torch.bfloat16, torch.complex64, torch.uint8])
def test_the_file_is_the_one_that_safetensors_would_write(odd: torch.dtype) -> None:
    tensors = {f"net/{name}": value.detach() for name, value in trained().state.params.items()}
    tensors |= {"odd": torch.ones(3, dtype=odd), "none": torch.zeros(0, 2), "scalar": torch.tensor(2.0)}
    told = {"faudit": '{"format": 1}'}
    assert checkpoint.serialised(tensors, told) == to_bytes(tensors, metadata=told)
    back = from_bytes(checkpoint.serialised(tensors, told))
    assert back.keys() == tensors.keys() and all(torch.equal(back[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("rule", ["bp", "dfa", "fa", "frozen-dfa"])
def test_everything_comes_back_to_the_last_bit(tmp_path: Path, rule: str, optimizer: str) -> None:
    config = CONFIG.with_(rule=rule, optimizer=optimizer, **({"momentum": 0.9} if optimizer == "sgd" else {}))
    experiment, fresh = trained(config), prepare(config, tiny_dataset())
    run = begun(tmp_path, config)
    checkpoint.save(run.checkpoint, experiment.state, 7, ties=run.ties())
    assert checkpoint.restore(run, fresh.state) == 7
    held, came = everything(experiment.state), everything(fresh.state)
    assert held.keys() == came.keys() and all(torch.equal(held[name], came[name]) for name in held)
    assert any(name.startswith("optimizer") for name in held), "the test would prove nothing of it"
    assert one_epoch(experiment, 2) == one_epoch(fresh, 2)
    assert all(torch.equal(experiment.state.params[name], fresh.state.params[name]) for name in experiment.state.params)


def test_a_checkpoint_cut_short_anywhere_is_refused(saved: tuple[Run, Experiment]) -> None:
    run, experiment = saved
    data = run.checkpoint.read_bytes()
    before = {name: value.detach().clone() for name, value in experiment.state.params.items()}
    for cut in [0, 1, 7, 8, 9, 100, *range(200, len(data), max(1, len(data) // 40)), len(data) - 1]:
        run.checkpoint.write_bytes(data[:cut])
        with pytest.raises(CheckpointError, match=r"damaged.*--again"):
            checkpoint.restore(run, experiment.state)
    assert all(torch.equal(before[name], value) for name, value in experiment.state.params.items())


def test_a_flipped_bit_anywhere_is_refused(saved: tuple[Run, Experiment]) -> None:
    """Every byte of faudit's own header, which holds the epoch, and a sample of all the others."""
    run, experiment = saved
    data = run.checkpoint.read_bytes()
    start = data.index(b"faudit")
    for place in [*range(start, start + 240), *range(0, len(data), max(1, len(data) // 150))]:
        flipped = bytearray(data)
        flipped[place] ^= 0x01
        run.checkpoint.write_bytes(flipped)
        with pytest.raises(CheckpointError):
            checkpoint.restore(run, experiment.state)


def test_a_generator_that_another_version_had_or_lacked_is_no_damage(saved: tuple[Run, Experiment]) -> None:
    run, experiment = saved
    more = checkpoint.TrainState(
        experiment.state.params, experiment.state.rule_state, experiment.state.optimizer,
        {**experiment.state.generators, "new": torch.Generator().manual_seed(3)},
    )  # fmt: skip
    before = more.generators["new"].get_state()
    assert checkpoint.restore(run, more) == 1
    assert torch.equal(before, more.generators["new"].get_state())
    checkpoint.save(run.checkpoint, more, 2, ties=run.ties())
    assert checkpoint.restore(run, experiment.state) == 2


def test_a_checkpoint_of_another_configuration_is_refused(saved: tuple[Run, Experiment]) -> None:
    run, _ = saved
    for other in (CONFIG.with_(width=6), CONFIG.with_(depth=3), CONFIG.with_(rule="fa"), CONFIG.with_(dtype="float64")):
        with pytest.raises(CheckpointError, match="expected"):
            checkpoint.restore(run, prepare(other, tiny_dataset()).state)


def test_a_newer_format_and_a_foreign_file_are_refused(
    saved: tuple[Run, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors.torch

    run, experiment = saved
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 2)
        checkpoint.save(run.checkpoint, experiment.state, 1, ties=run.ties())
    with pytest.raises(CheckpointError, match=r"format 2, this faudit reads 1"):
        checkpoint.load(run.checkpoint)
    safetensors.torch.save_file({"a": torch.zeros(2)}, run.checkpoint)
    with pytest.raises(CheckpointError, match="expected faudit's header"):
        checkpoint.load(run.checkpoint)
    run.checkpoint.unlink()
    with pytest.raises(CheckpointError):
        checkpoint.load(run.checkpoint)


def test_nothing_in_a_checkpoint_is_a_pickle(saved: tuple[Run, Experiment]) -> None:
    import io
    import pickle

    with pytest.raises((pickle.UnpicklingError, EOFError, KeyError, ValueError, IndexError)):
        pickle.load(io.BytesIO(saved[0].checkpoint.read_bytes()))  # noqa: S301 - our own bytes, to show it is none
    assert {name.split("/")[0] for name in checkpoint.load(saved[0].checkpoint)[0]} == {
        "net",
        "rule",
        "rng",
        "optimizer",
    }


def test_the_feedback_weights_are_in_it(saved: tuple[Run, Experiment]) -> None:
    run, experiment = saved
    tensors, _ = checkpoint.load(run.checkpoint)
    assert torch.equal(tensors["rule/B.1"], experiment.state.rule_state["B.1"])
    assert checkpoint.weights(run.checkpoint).keys() == experiment.state.params.keys()
