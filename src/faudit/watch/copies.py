"""Copies of a foreign model that are safe to measure, or a one-line error that says why there are none.

The audit measures two copies, one in the model's own precision and one in float64. Both are in eval mode and require no
gradients. The caller's model is copied and never run. A model that is not deterministic, changes its state in a forward
pass or mixes the samples of a batch has no reproducible gradient per sample. It is refused before any measurement.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.watch.batches import cut
from faudit.watch.net import ForeignNet, Inputs, described, error_text, tap_names
from faudit.watch.reading import doubled

MIXING = 1e-3  # largest difference between half a batch and the whole in float64, relative to the largest logit


@contextmanager
def same_randomness() -> Iterator[None]:
    """Restore the state of every random generator when the context ends."""
    devices = (
        range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    )  # ``manual_seed`` seeds all devices
    python, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


def inspected(model: nn.Module, x: Inputs, *, patterns: Sequence[str], samples: int) -> tuple[ForeignNet, ForeignNet]:
    """The model's two copies, with their taps in the order of execution."""
    if not patterns:
        raise ModelError("the taps: expected at least one name or pattern, got none, for example taps=['blocks.*']")
    refuse_weights(model)
    names = tap_names(model, patterns)
    net, logits = steady(copied(model), names, x, samples=samples)
    exact = ForeignNet(net.sample_shape, net.classes, copied(model).double(), net.names)
    refuse_mixing(exact, doubled(x), samples=samples)
    if logits.shape[0] != samples or not logits.is_floating_point():
        raise ModelError(
            f"the model's logits: expected floating point with {samples} samples first, got {described(logits)}. "
            "Wrap the model so that it returns them."
        )
    return net, exact


def refuse_weights(model: nn.Module) -> None:
    """Refuse weights that are not dense, real and finite; a buffer may hold infinities (an attention mask)."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if value.is_meta or isinstance(value, nn.UninitializedParameter | nn.UninitializedBuffer):
            raise ModelError(f"the model's {name!r} has no values yet: expected a model with its weights loaded.")
        if value.is_complex() or value.layout is not torch.strided:
            kind = "complex" if value.is_complex() else "sparse"
            raise ModelError(
                f"the model's {name!r}: expected dense real numbers, got a {kind} tensor, {described(value)}. An audit "
                "compares real gradients; give a model with real, dense weights."
            )
        if not value.is_floating_point():
            continue
        bad = ~torch.isfinite(value) if isinstance(value, nn.Parameter) else torch.isnan(value)
        if bool(bad.any()):
            raise ModelError(
                f"the model's {name!r}: expected finite numbers, got {int(bad.sum())} of {value.numel()} that are NaN "
                "or infinite. It diverged before this audit; give an earlier checkpoint."
            )


def copied(model: nn.Module) -> nn.Module:
    """A copy in eval mode whose parameters require no gradients."""
    try:
        return copy.deepcopy(model).eval().requires_grad_(requires_grad=False)
    except Exception as error:
        raise ModelError(
            f"the model cannot be copied: {error_text(error)}. An audit works on copies; build a new model, load its "
            "weights, and give that."
        ) from error


def steady(model: nn.Module, names: tuple[str, ...], x: Inputs, *, samples: int) -> tuple[ForeignNet, Tensor]:
    """The copy as a net, if two passes over one batch agree to the last bit and do not change its state."""
    shape = () if isinstance(x, Mapping) else tuple(x.shape[1:])
    net = ForeignNet(shape, 0, model, names)
    before = {name: value.clone() for name, value in tensors(model).items()}
    with torch.enable_grad():  # so that a tap inside no-grad code is detected
        torch.manual_seed(0)
        first, logits = net.record(x)
        refuse_changed(before, tensors(model))
        refuse_shapes(first, samples=samples)
        held = attributes(model)
        torch.manual_seed(1)
        second, again = net.record(x)
    refuse_changed(before, tensors(model))
    refuse_changed(held, attributes(model))
    for name, one, two in [*((name, h, second[name]) for name, h in first.items()), ("the logits", logits, again)]:
        if not identical(one, two):
            raise ModelError(
                f"the model is not deterministic in eval mode: the same batch twice gave different numbers, first at "
                f"{name!r}. Refused, because no measurement could be repeated. Switch its randomness off."
            )
    classes = logits.shape[1] if logits.ndim == 2 else 0
    return ForeignNet(shape, classes, model, tuple(first)), logits.detach()


def refuse_shapes(taps: Mapping[str, Tensor], *, samples: int) -> None:
    """Refuse a tap whose first dimension is not the samples."""
    for name, h in taps.items():
        if h.ndim < 2 or len(h) != samples:
            raise ModelError(
                f"the tap {name!r}: expected {samples} samples first and features after, got {described(h)}. "
                "Tap a submodule whose output keeps the batch first."
            )


def refuse_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a model whose forward pass in eval mode changes a buffer, weight or attribute."""
    for name in (*before, *(after.keys() - before.keys())):
        if name not in before or name not in after or not identical(before[name], after[name]):
            raise ModelError(
                f"the model changes its own state in eval mode: {name!r} differs after a forward pass. Expected a "
                "forward() that writes nothing. Make the write depend on self.training."
            )


def refuse_mixing(exact: ForeignNet, x: Inputs, *, samples: int) -> None:
    """Refuse a model whose logits for half a batch differ from those for the whole: its samples affect one another."""
    with torch.no_grad():
        try:
            _, whole = exact.record(x)
        except ModelError as error:
            if error.__cause__ is None:  # raised by faudit, not by the model
                raise
            raise ModelError(
                f"the model runs in its own precision but not in float64, the reference for its precision: "
                f"{error_text(error.__cause__)}. Expected code without a fixed dtype, and its tensors as buffers."
            ) from error
        if samples < 2:
            return
        taps, half = exact.record(cut(x, samples // 2))
    refuse_shapes(taps, samples=samples // 2)
    limit = MIXING * float(whole.abs().max())
    if half.shape[1:] != whole.shape[1:] or not bool(((half - whole[: len(half)]).abs() <= limit).all()):
        if not bool(torch.isfinite(whole).all()):
            return  # an overflow, which the probes report
        raise ModelError(
            "the samples of a batch affect one another in eval mode: half a batch gave other logits than the whole. "
            "Expected independent samples; a BatchNorm needs its running statistics."
        )


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every weight and buffer by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def attributes(model: nn.Module) -> dict[str, Any]:
    """Other state of the modules: numbers, text and tensors among the attributes, and the lengths of collections."""
    held: dict[str, Any] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            key = f"{path}.{name}" if path else name
            if isinstance(value, Tensor):
                held[key] = value.detach().clone()
            elif isinstance(value, bool | int | float | str):
                held[key] = value
            elif isinstance(value, list | dict | set):
                held[key] = len(value)
    return held


def identical(a: Any, b: Any) -> bool:
    """Whether two values are equal to the last bit; NaN equals NaN."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and (a == b or (a != a and b != b))
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())
