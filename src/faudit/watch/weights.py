"""Load the weights of a foreign model from safetensors, or from PyTorch's format without unpickling.

A file that is truncated, malicious or from another model gives a one-line error and leaves the model unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.watch.net import described, error_text


def load_weights(model: nn.Module, path: Path) -> None:
    """Load the tensors of a file into a model; names and shapes must match the model."""
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
                f"{path}: {name!r}: expected real numbers, as the model has, got {described(came[name])}: its "
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
        raise ModelError(f"{path}: expected a file of weights, got none")
    try:
        found: Any = (
            load_file(path) if is_safetensors(path) else torch.load(path, map_location="cpu", weights_only=True)
        )
    except Exception as error:
        # A damaged or malicious file may fail in any way; none of its code was executed.
        raise ModelError(
            f"{path} was not loaded: expected whole safetensors, or tensors as torch.save(model.state_dict(), …) "
            f"writes them, got {error_text(error)}. A file that needs unpickling is refused; save it again as "
            "safetensors."
        ) from error
    entries = found if isinstance(found, Mapping) else {}
    if not entries or not all(isinstance(value, Tensor) for value in entries.values()):
        inside = next((name for name, value in entries.items() if isinstance(value, Mapping)), None)
        hint = "Save model.state_dict() on its own." if inside is None else f"Save its part {inside!r} on its own."
        raise ModelError(f"{path}: expected tensors by name and nothing else, got {summary(found)}. {hint}")
    return {str(name): value for name, value in found.items()}


def is_safetensors(path: Path) -> bool:
    """Whether a file is safetensors, by its suffix or by its first bytes: a length, then a JSON object."""
    with open(path, "rb") as file:
        head = file.read(9)
    length = int.from_bytes(head[:8], "little")
    return path.suffix == ".safetensors" or (head[8:] == b"{" and 0 < length < path.stat().st_size)


def summary(found: object) -> str:
    """A short description of the contents of a file, for an error."""
    if not isinstance(found, Mapping):
        return described(found)
    return "entries " + ", ".join(f"{name} ({type(value).__name__})" for name, value in list(found.items())[:4])
