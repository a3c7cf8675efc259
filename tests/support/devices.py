"""A device without a GPU: torch's ``meta``, whose tensors hold no data, under a watch for what a GPU would wait for.

An operation between a CPU tensor and a tensor of the device raises, as on a GPU. So does one whose result has a shape
that depends on values. What is copied to the device, and what is read from it, is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
FROM_NUMBERS = (torch.tensor, torch.as_tensor, Tensor.new_tensor)


class Watched(TorchDispatchMode):
    """Writes down every copy between the CPU and the device, and every number that is read from the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate it
        self.reads: list[str] = []  # the host waits for the device
        self.waits: list[str] = []  # copies to the device that the host waits for
        self.moves: list[tuple[int, ...]] = []  # the shapes of copies that it does not wait for
        self._pinned: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten._pin_memory.default:
            self._pinned.append(args[0].clone())
            return self._pinned[-1]
        if func is aten._local_scalar_dense.default and args[0].device == META:
            self.reads.append(str(func))
            return 1.0 if args[0].is_floating_point() else 1
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if func in COPIES:
            return self._copied(func, args, kwargs, tensors[-1])
        places = {one.device.type for one in tensors if one.dim()}
        assert len(places) < 2, f"{func} mixes tensors of {sorted(places)}"
        return func(*args, **kwargs)

    def _copied(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: Tensor) -> Any:
        target = args[0].device if func is aten.copy_.default else kwargs.get("device") or source.device
        if source.device == META and target.type == "cpu":
            self.reads.append(f"{func} of {tuple(source.shape)}")
            return torch.ones(source.shape, dtype=kwargs.get("dtype") or source.dtype)
        if source.device.type == "cpu" and target == META:
            is_pinned = any(source.data_ptr() == one.data_ptr() for one in self._pinned)
            is_beside = kwargs.get("non_blocking") or (len(args) > 2 and args[2])
            if is_pinned and is_beside:
                self.moves.append(tuple(source.shape))
            else:
                self.waits.append(f"{func} of {tuple(source.shape)}")
        return func(*args, **kwargs)


class FromNumbers(TorchFunctionMode):
    """Writes down every tensor that is made on the device from numbers of Python: torch copies them, and waits."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in FROM_NUMBERS and result.device == META:
            self._watched.waits.append(f"{getattr(func, '__name__', func)} of {tuple(result.shape)}")
        return result


@contextmanager
def watched() -> Iterator[Watched]:
    """Watch what goes to the device and comes from it."""
    with Watched() as found, FromNumbers(found):
        yield found


def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every experiment be prepared on the device. torch has no fused optimizers there, so it takes the others."""
    monkeypatch.setattr("faudit.experiment.usable", lambda _: META)
    monkeypatch.setattr("faudit.optimizers.adam.FusedAdam", partial(torch.optim.Adam, foreach=False))
    monkeypatch.setattr("faudit.optimizers.adamw.FusedAdamW", partial(torch.optim.AdamW, foreach=False))
    monkeypatch.setattr(torch.optim, "SGD", unfused(torch.optim.SGD))


def unfused(kind: Callable[..., torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """An optimizer whose updates are separate operations, which every device has."""
    return lambda params, fused, **settings: kind(params, foreach=False, **settings)
