"""What is measured of a model whose backward pass is not the derivative of its forward pass: its plain twin.

Layers with feedback weights inside send another error back than the loss has, so autograd gives their signal and not
the gradient. Such a model is refused, unless the caller gives ``plain``: the same network with ordinary layers. A copy
of it gets the weights of the model by name. ``plain=model`` says that the backward pass is meant as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isfinite

import torch
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.watch.copies import copied, tensors
from faudit.watch.net import ForeignNet, Inputs, called, described, logits_of
from faudit.watch.reading import Loss, doubled, doubled_one

STEPS = (1e-6, 1e-5, 1e-7, 1e-4, 1e-8, 1e-3)  # of a finite difference, relative to the weights; the likeliest first
HONEST = 0.01  # largest relative error between a derivative and its finite difference


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside a compiled, data-parallel or distributed one."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):  # torch.compile
            model = inner
        else:
            return model


def is_meant(model: nn.Module, plain: nn.Module | None) -> bool:
    """Whether the caller says that the backward pass is meant as it is."""
    return isinstance(plain, nn.Module) and unwrapped(plain) is unwrapped(model)


def measurable(model: nn.Module, plain: nn.Module | None) -> nn.Module:
    """The model itself, or a copy of its plain twin with its weights; neither of the two is changed."""
    source = unwrapped(model)
    if plain is None or is_meant(model, plain):
        return source
    if not isinstance(plain, nn.Module):
        raise ModelError(f"plain: expected a torch.nn.Module, got {described(plain)}")
    twin, theirs = copied(unwrapped(plain)), tensors(source)
    own = tensors(twin)
    for name, value in own.items():
        if name not in theirs or theirs[name].shape != value.shape:
            came = "none" if name not in theirs else described(theirs[name])
            raise ModelError(
                f"plain: expected the weights of the model by name, got {name!r} with {list(value.shape)}, where the "
                f"model has {came}. Build both with the same sizes."
            )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(theirs[name])
    return twin


def refuse_other_backward(exact: ForeignNet, x: Inputs, y: Tensor, loss: Loss) -> None:
    """Refuse a model whose backward pass is not the derivative of its forward pass: autograd cannot tell its gradient.

    Along its own gradient the loss must change as the gradient says. Layers with feedback weights inside fail here. An
    exploded model may be so steep that no finite difference can tell. It is not refused.
    """
    model, x, y = exact.model, doubled(x), doubled_one(y)
    pairs = weights_and_gradients(model, x, y, loss)
    size = float(sum(gradient.square().sum() for _, gradient in pairs)) ** 0.5
    if not pairs or size == 0.0 or not isfinite(size):
        return
    scale = float(sum(value.square().sum() for value, _ in pairs)) ** 0.5 or 1.0
    shares: list[float] = []
    for step in STEPS:
        shares.append(slope(model, x, y, loss, pairs, step=step * scale / size) / size**2)
        if is_close(shares[-1], 1.0):
            return
    if any(is_close(one, other) for one, other in combinations(shares, 2)):
        raise ModelError(
            "the model's backward pass is not the derivative of its forward pass: along its own gradient the loss "
            f"changes {shares[0]:.3g} times as fast as expected. Autograd cannot tell the true gradient. Give plain=…, "
            "the same model with ordinary layers, or plain=model if that is meant."
        )


def is_close(one: float, other: float) -> bool:
    return abs(one - other) <= HONEST * max(abs(one), abs(other))


def weights_and_gradients(model: nn.Module, x: Inputs, y: Tensor, loss: Loss) -> list[tuple[Tensor, Tensor]]:
    """The weights that have a gradient of the summed loss, each with it; none where autograd cannot take one."""
    weights = [value for value in model.parameters() if value.is_floating_point()]
    try:
        for value in weights:
            value.requires_grad_()
        total = loss(logits_of(called(model, x)), y).sum()
        found = torch.autograd.grad(total, weights, allow_unused=True) if total.requires_grad else []
    except RuntimeError:  # the reading of the gradients at the taps refuses it in its own words
        return []
    finally:
        for value in weights:
            value.requires_grad_(False)
    return [(value, gradient) for value, gradient in zip(weights, found, strict=False) if gradient is not None]


@torch.no_grad()
def slope(
    model: nn.Module, x: Inputs, y: Tensor, loss: Loss, pairs: Sequence[tuple[Tensor, Tensor]], *, step: float
) -> float:
    """The central difference of the loss along the gradient; the weights are as before afterwards."""
    kept = [value.clone() for value, _ in pairs]
    sums = []
    try:
        for sign in (1.0, -1.0):
            for (value, gradient), before in zip(pairs, kept, strict=True):
                value.copy_(before + sign * step * gradient)
            sums.append(float(loss(logits_of(called(model, x)), y).sum()))
    finally:
        for (value, _), before in zip(pairs, kept, strict=True):
            value.copy_(before)
    return (sums[0] - sums[1]) / (2.0 * step)
