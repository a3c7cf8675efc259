"""The shadow of a watched model: copies that follow its weights, so that measuring never runs the model itself.

The copies are made once. Before each measurement the weights, buffers and plain attributes of the model are written
into them, which costs about as much as one copy of the weights. Hooks of the user that only look are not on the copies,
so they do not see a measurement. Backward hooks are not either, because the true gradient must not pass through them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.watch.blocks import BlockNet, parts_of
from faudit.watch.copies import copied, identical, inspected, same_randomness, tensors
from faudit.watch.net import Inputs, called, described, logits_of
from faudit.watch.plain import measurable, unwrapped

MODULE = frozenset(vars(nn.Module()))  # what torch keeps in every module: its tables, hooks and mode
PRECISIONS = (torch.float32, torch.float64)


@contextmanager
def apart() -> Iterator[None]:
    """A place to measure in: own randomness, gradients on, no autocast, whatever the caller has set."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(same_randomness())
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield


class Shadow:
    """Copies of a model that follow it. ``plain`` is the same network with ordinary layers, if the caller gave one."""

    def __init__(
        self, model: nn.Module, plain: nn.Module | None, x: Inputs, *, patterns: Sequence[str], samples: int
    ) -> None:
        self.source = unwrapped(model)
        pattern = measurable(model, plain)
        refuse_precision(pattern)
        bare = without_hooks(pattern, x)
        net, exact = inspected(bare, x, patterns=patterns, samples=samples)
        self.names = net.names
        self.net = BlockNet(net.sample_shape, net.classes, net.model, net.names)
        self.exact = BlockNet(net.sample_shape, net.classes, exact.model, net.names)
        self.parts = parts_of(net.model, net.names, x)
        # The copies never change their structure, and walking through a large model takes milliseconds.
        self._tensors = {copy: tensors(copy) for copy in (self.net.model, self.exact.model)}
        self._modules = {copy: dict(copy.named_modules()) for copy in self._tensors}
        self.initial = self.state()

    def state(self) -> dict[str, Tensor]:
        """A copy of every weight and buffer of the model."""
        return {name: value.detach().clone() for name, value in tensors(self.source).items()}

    def follow(self, *, exactly: bool = False) -> None:
        """Write the model's weights, buffers and attributes into the copies; with ``exactly`` into float64 too."""
        theirs, modules = tensors(self.source), dict(self.source.named_modules())
        for copy in (self.net.model, self.exact.model) if exactly else (self.net.model,):
            lend(theirs, self._tensors[copy])
            follow_attributes(modules, self._modules[copy])

    def hold(self, state: Mapping[str, Tensor], *, exactly: bool = False) -> None:
        """Write other weights and buffers of the same names into the copies."""
        for copy in (self.net.model, self.exact.model) if exactly else (self.net.model,):
            lend(state, self._tensors[copy])

    def blocks_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the blocks in a state, by part and name."""
        return {
            f"{part}.{name}": state[name]
            for name, part in self.parts.items()
            if part.startswith("blocks.") and name in state
        }

    @contextmanager
    def in_training(self) -> Iterator[nn.Module]:
        """The copy in the model's own modes, whose weights require gradients where those of the model do."""
        copy, modes = self.net.model, {name: module.training for name, module in self.source.named_modules()}
        asks = {name: value.requires_grad for name, value in self.source.named_parameters()}
        try:
            for name, module in self._modules[copy].items():
                module.training = modes.get(name, self.source.training)
            for name, value in copy.named_parameters():
                value.requires_grad_(asks.get(name, False))
            yield copy
        finally:
            copy.eval().requires_grad_(requires_grad=False)


def refuse_precision(model: nn.Module) -> None:
    """Refuse weights in half precision: norms overflow and cosines have three digits."""
    for name, value in model.named_parameters():
        if value.is_floating_point() and value.dtype not in PRECISIONS:
            raise ModelError(
                f"the model's {name!r}: expected float32 or float64, got {described(value)}. Keep the weights in "
                "float32 and train under torch.autocast."
            )


def refuse_device(model: nn.Module, x: Inputs) -> None:
    """Refuse a batch on another device than the model."""
    places = {value.device for value in tensors(model).values()}
    for value in x.values() if isinstance(x, Mapping) else [x]:
        if places and value.device not in places:
            there = ", ".join(sorted(map(str, places)))
            raise ModelError(
                f"the batch: expected on the device of the model, {there}, got {value.device}. "
                "Move it there with .to(device)."
            )


def lend(theirs: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Write the weights and buffers of a model into those of a copy, by name; the copy may lack some."""
    for name, value in own.items():
        if name not in theirs or theirs[name].shape != value.shape:
            came = "none" if name not in theirs else described(theirs[name])
            raise ModelError(
                f"the model has changed since it is watched: expected {name!r} with {list(value.shape)}, got {came}. "
                "Watch the new model in a new `with`."
            )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(theirs[name])


def follow_attributes(theirs: Mapping[str, nn.Module], copies: Mapping[str, nn.Module]) -> None:
    """Write the numbers, texts and tensors among the attributes of submodules into those of a copy."""
    for path, module in copies.items():
        if path not in theirs or type(theirs[path]) is not type(module):
            continue
        own = vars(module)
        for name, value in vars(theirs[path]).items():
            if name in MODULE or name not in own:
                continue
            if isinstance(value, bool | int | float | str):
                own[name] = value
            elif isinstance(value, Tensor) and not value.requires_grad and isinstance(own[name], Tensor):
                own[name] = value.detach().to(own[name].dtype, copy=True)


def without_hooks(model: nn.Module, x: Inputs) -> nn.Module:
    """A copy without backward hooks, and without the forward hooks if these change nothing."""
    bare, plain = copied(model), copied(model)
    for module in bare.modules():
        module._backward_hooks.clear()
        module._backward_pre_hooks.clear()
    watched = False
    for module in plain.modules():
        module._backward_hooks.clear()
        module._backward_pre_hooks.clear()
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key in [key for key, hook in hooks.items() if is_function(hook)]:
                del hooks[key]
                watched = True
    if not watched:
        return bare
    with torch.no_grad():
        torch.manual_seed(0)
        one = logits_of(called(bare, x))
        torch.manual_seed(0)
        two = logits_of(called(plain, x))
    return plain if identical(one, two) else bare


def is_function(hook: Any) -> bool:
    """Whether a hook is a function or method; an object of its own, such as torch's weight norm, computes weights."""
    return inspect.isroutine(hook) or isinstance(hook, functools.partial)
