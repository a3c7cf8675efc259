"""The control of a watched loop: the same model trained by the same code, with the watched blocks frozen.

Without it, nobody knows whether training the blocks helped at all: the embedding and the head may do all the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from faudit.errors import ModelError
from faudit.store import controls
from faudit.watch.copies import identical, tensors
from faudit.watch.loop import Watch
from faudit.watch.net import described
from faudit.watch.plain import unwrapped


def control(make_model: Callable[[], nn.Module], train: Callable[[Any], Any], *, of: Watch) -> float:
    """Train a new model with the blocks of a watched run frozen, and attach its accuracy to that run.

    ``make_model()`` builds the model. It gets the weights that the watched one began with. Its blocks do not require
    gradients, and an optimizer's step does not change them. ``train(model)`` trains it as the watched one was trained.
    If that code calls ``log`` and ``compare`` of the watch, these do nothing. Returns the accuracy on the eval batch.
    """
    model = make_model()
    if not isinstance(model, nn.Module):
        raise ModelError(f"make_model: expected a function that returns a torch.nn.Module, got {described(model)}")
    inner = unwrapped(model)
    began, own = of.shadow.initial, tensors(inner)
    if odd := [name for name in {**began, **own} if name not in began or name not in own]:
        raise ModelError(f"make_model: expected the weights of the watched model, got a difference in {odd[0]!r}.")
    if odd := [name for name, value in own.items() if value.shape != began[name].shape]:
        sizes = f"{list(began[odd[0]].shape)}, got {list(own[odd[0]].shape)}"
        raise ModelError(f"make_model: {odd[0]!r}: expected the shape of the watched model, {sizes}.")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(began[name])
    blocks = {name for name, part in of.shadow.parts.items() if part.startswith("blocks.")}
    frozen = {name: value for name, value in inner.named_parameters() if name in blocks}
    for value in frozen.values():
        value.requires_grad_(False)
    with held(frozen, began), of.idle():
        train(model)
    now = dict(inner.named_parameters())
    for name in frozen:
        if name not in now or not identical(now[name].detach(), began[name]):
            raise ModelError(
                f"train: expected the frozen blocks as they were, got a change in {name!r}. Leave out the parameters "
                "that do not require gradients, or update them with an optimizer."
            )
    accuracy = of.accuracy_of(inner)
    controls.attach(of.run, accuracy)
    return accuracy


@contextmanager
def held(frozen: Mapping[str, Tensor], began: Mapping[str, Tensor]) -> Iterator[None]:
    """Put the frozen weights back after every step of any optimizer: a rule may fill ``.grad`` whatever the flags."""

    @torch.no_grad()
    def put_back(*_: Any) -> None:
        for name, value in frozen.items():
            value.copy_(began[name])

    handle = register_optimizer_step_post_hook(put_back)
    try:
        yield
    finally:
        handle.remove()
