"""Concatenate the caller's batches into one buffer. A batch is a pair (x, y), x a tensor or a mapping of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from faudit.errors import ModelError
from faudit.watch.net import Inputs, described, error_text

WHAT = "expected a pair (x, y), x a tensor or a mapping of tensors, y a tensor with one entry for each sample"


def buffer(batches: Iterable[Any], *, samples: int | None) -> tuple[Inputs, Tensor]:
    """The first ``samples`` samples of the batches; all of them if None."""
    if samples is not None and (not isinstance(samples, int) or samples < 1):
        raise ModelError(f"samples: expected a whole number of at least 1, got {samples!r}")
    if isinstance(batches, Tensor | Mapping) or not isinstance(batches, Iterable):
        raise ModelError(
            f"the batches: expected an iterable of pairs (x, y), got {described(batches)}. Write [(x, y)] for one."
        )
    pairs: list[tuple[Inputs, Tensor]] = []
    count = 0
    for place, batch in enumerate(batches):
        pairs.append(pair(batch, where=f"batch {place}"))
        count += len(pairs[-1][1])
        if samples is not None and count >= samples:
            break
    if count == 0:
        raise ModelError("the batches: expected at least one sample, got none. Is the iterator used up?")
    x, y = joined([one for one, _ in pairs]), joined([one for _, one in pairs])
    assert isinstance(y, Tensor)
    return cut(x, samples), y[:samples]


def pair(batch: Any, *, where: str) -> tuple[Inputs, Tensor]:
    """Check one batch."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ModelError(f"{where}: {WHAT}; got {described(batch)}")
    x, y = batch
    tensors = dict(x) if isinstance(x, Mapping) else {"x": x}
    if not isinstance(y, Tensor) or y.ndim == 0 or not tensors:
        raise ModelError(f"{where}: {WHAT}; got x {described(x)}, y {described(y)}")
    for name, value in tensors.items():
        if not isinstance(value, Tensor) or value.ndim == 0 or len(value) != len(y):
            raise ModelError(f"{where}: {WHAT}; got {name} {described(value)} with y {described(y)}")
        if value.is_floating_point() and not value.is_meta and not is_finite(value):
            raise ModelError(f"{where}: expected finite inputs, got NaN or infinity in {name}. Clean the data first.")
    return (tensors if isinstance(x, Mapping) else x), y


def is_finite(x: Tensor) -> bool:
    """Whether all numbers are finite. A sum is cheap and not finite if one of them is not; it may also overflow."""
    return bool(torch.isfinite(x.sum())) or bool(torch.isfinite(x).all())


def joined(parts: list[Any]) -> Any:
    """Concatenate tensors, or mappings of tensors."""
    if isinstance(parts[0], Mapping):
        if any(not isinstance(part, Mapping) or part.keys() != parts[0].keys() for part in parts):
            raise ModelError(
                f"the batches: expected the same inputs in each, {', '.join(parts[0])}, got different ones"
            )
        return {name: joined([part[name] for part in parts]) for name in parts[0]}
    try:
        return torch.cat(parts).detach()
    except (RuntimeError, TypeError) as error:
        raise ModelError(
            f"the batches cannot be concatenated: expected samples of one shape and type, got {error_text(error)}. "
            "Pad them to one length."
        ) from error


def cut(x: Inputs, samples: int | None) -> Inputs:
    """The first samples."""
    return {name: value[:samples] for name, value in x.items()} if isinstance(x, Mapping) else x[:samples]
