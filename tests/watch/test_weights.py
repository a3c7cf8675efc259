"""Weights from a file: nothing is unpickled, and what does not fit is one line that leaves the model as it was."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from faudit.errors import ModelError
from faudit.watch.weights import load_weights
from tests.support.models import everything, mlp


class Hostile:
    """What a pickle can do to whoever opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def save(path: Path, state: Any) -> Path:
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(state, path)
    else:
        torch.save(state, path)
    return path


def refusal(path: Path) -> str:
    model = mlp()
    before = everything(model)
    with pytest.raises(ModelError) as caught:
        load_weights(model, path)
    assert everything(model) == before, "a refused file leaves the model as it was"
    said = str(caught.value)
    assert len(said.splitlines()) == 1 and str(path) in said
    return said


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "model.bin"])
def test_weights_come_back(tmp_path: Path, name: str) -> None:
    source, model = mlp(seed=1), mlp(seed=2)
    load_weights(model, save(tmp_path / name, source.state_dict()))
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in source.state_dict().items())


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: {"0.weight": torch.zeros(8, 8), "x": it}])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path: Path, wrap: Any, legacy: bool) -> None:
    trap = tmp_path / "executed"
    path = tmp_path / "model.pt"
    torch.save(wrap(Hostile(trap)), path, _use_new_zipfile_serialization=not legacy)
    assert "needs unpickling is refused" in refusal(path)
    plain = tmp_path / "plain.pkl"
    plain.write_bytes(pickle.dumps(wrap(Hostile(trap))))
    refusal(plain)
    renamed = tmp_path / "model.safetensors"
    renamed.write_bytes(path.read_bytes())
    refusal(renamed)
    assert not trap.exists()
    torch.load(path, weights_only=False)  # the trap is a real one
    assert trap.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_a_file_that_was_cut_flipped_or_is_not_there(tmp_path: Path, name: str) -> None:
    whole = save(tmp_path / name, mlp().state_dict()).read_bytes()
    for length in (0, 7, len(whole) // 2, len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:length])
        assert "was not loaded" in refusal(tmp_path / name)
    assert "a file of weights, got none" in refusal(tmp_path / "absent" / name)
    assert "a file of weights, got none" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_names_and_shapes_must_be_the_models(tmp_path: Path, name: str) -> None:
    state = mlp().state_dict()
    path = tmp_path / name
    save(path, {key: value for key, value in state.items() if not key.startswith("2.")})
    assert "lacks '2.weight' (2 such): expected the 8 tensors" in refusal(path)
    save(path, {**state, "extra.bias": torch.zeros(3)})
    assert "has the unknown 'extra.bias' (1 such)" in refusal(path)
    save(path, {**state, "4.bias": torch.zeros(3)})
    assert "'4.bias': expected the model's shape [8], got [3]" in refusal(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"epoch": 3, "model": {"a": torch.zeros(1)}}, "got entries epoch (int), model (dict). Save its part 'model'"),
        ([torch.zeros(1)], "got list"),
        ({}, "expected tensors by name"),
        (torch.zeros(2), "got float32 [2]"),
    ],
)  # fmt: skip
def test_a_file_of_something_else(tmp_path: Path, content: Any, told: str) -> None:
    assert told in refusal(save(tmp_path / "model.pt", content))


def test_a_whole_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(nn.Linear(2, 2), path)
    assert "save it again as safetensors" in refusal(path)
