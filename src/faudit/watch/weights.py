"""Weights of a foreign model from a file, never unpickled: safetensors, or PyTorch's own format, tensors alone.

A file that is cut, hostile or made for another model is one line of error, and the model is then not half loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.watch.net import described, told


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model with the tensors of a file; names and shapes must be the model's own."""
    came, own = read(path), model.state_dict()
    for what, names in (("lacks", own.keys() - came.keys()), ("has the unknown", came.keys() - own.keys())):
        if names:
            first = next(name for name in (*own, *came) if name in names)
            raise ModelError(
                f"{path} {what} {first!r} ({len(names)} such): expected the {len(own)} tensors of this model. "
                "Is it the file of another model, or of one with other settings?"
            )
    for name, value in own.items():
        if came[name].is_complex() and not value.is_complex():
            raise ModelError(
                f"{path}: {name!r}: expected real numbers, as the model has, got {described(came[name])}: their "
                "imaginary parts would be lost. Save the weights that this model computes with."
            )
        if came[name].layout is not torch.strided:
            raise ModelError(
                f"{path}: {name!r}: expected dense numbers, got a sparse tensor. Save it with .to_dense()."
            )
        if came[name].shape != value.shape:
            raise ModelError(
                f"{path}: {name!r}: expected the model's shape {list(value.shape)}, got {list(came[name].shape)}. "
                "Build the model with the settings that these weights were trained with."
            )
    model.load_state_dict(came)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    if not path.is_file():
        raise ModelError(f"{path}: expected a file of weights, got nothing there")
    try:
        found: Any = (
            load_file(path) if is_safetensors(path) else torch.load(path, map_location="cpu", weights_only=True)
        )
    except Exception as error:
        # A damaged or hostile file may fail in any way; nothing of it was executed.
        raise ModelError(
            f"{path} was not loaded: expected whole safetensors, or tensors as torch.save(model.state_dict(), …) "
            f"writes them, got {told(error)}. A file that needs unpickling is refused; save it again as safetensors."
        ) from error
    entries = found if isinstance(found, Mapping) else {}
    if not entries or not all(isinstance(value, Tensor) for value in entries.values()):
        inside = next((name for name, value in entries.items() if isinstance(value, Mapping)), None)
        hint = "Save model.state_dict() on its own." if inside is None else f"Save its part {inside!r} on its own."
        raise ModelError(f"{path}: expected tensors by name and nothing else, got {summary(found)}. {hint}")
    return {str(name): value for name, value in found.items()}


def is_safetensors(path: Path) -> bool:
    """Whether a file is safetensors, by its name or, whatever that is, by its head: a length, then a JSON object."""
    with open(path, "rb") as file:
        head = file.read(9)
    length = int.from_bytes(head[:8], "little")
    return path.suffix == ".safetensors" or (head[8:] == b"{" and 0 < length < path.stat().st_size)


def summary(found: object) -> str:
    """What a file holds instead, in a few words."""
    if not isinstance(found, Mapping):
        return described(found)
    return "entries " + ", ".join(f"{name} ({type(value).__name__})" for name, value in list(found.items())[:4])
