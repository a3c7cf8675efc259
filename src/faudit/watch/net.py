"""Any ``nn.Module`` with the interface of a net: its taps are the outputs of named submodules, in execution order.

A forward hook reads a tap. Another hook replaces a tap by a moved state and lets the rest of the model run, so the
model's own code defines what it computes. If a submodule returns a tuple, list or mapping, the tap is its first tensor
and the replacement keeps the structure. Such a net has no embedding, branch or readout to call, so probes can read it
but no rule can train it. Only the model's own ``forward`` can write to the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from faudit.errors import FauditError, ModelError
from faudit.errors import error_text as error_text
from faudit.nets.net import Net, Params, Trace
from faudit.registry import nearest

Inputs = Tensor | Mapping[str, Tensor]  # the model is called as model(x) or model(**x)

CONTAINERS = (
    nn.ModuleList,
    nn.ModuleDict,
    nn.ParameterList,
    nn.ParameterDict,
)  # they hold modules and are never called
LISTED = 20  # most names in an error; a large model has thousands


@dataclass(frozen=True, eq=False)
class ForeignNet(Net):
    """A model and the names of its taps; the signal of each tap is compared with the gradient at that tap."""

    model: nn.Module
    names: tuple[str, ...]

    @property
    def blocks(self) -> int:
        return len(self.names)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the measured states, in order."""
        return self.names

    @property
    def is_pure(self) -> bool:
        return False  # it adds and removes hooks

    def record(self, x: Inputs) -> tuple[dict[str, Tensor], Tensor]:
        """One forward pass: each tap by name, in execution order, and the logits.

        With gradients enabled, every tap is in the graph, even if no weight of the model requires gradients.
        """
        seen: dict[str, Tensor] = {}
        graded = torch.is_grad_enabled()

        def keep(name: str, h: Tensor) -> Tensor:
            if name in seen:
                raise ModelError(
                    f"the tap {name!r}: expected one use in a forward pass, got a second. Tap a submodule that runs "
                    "once, or give each use a submodule of its own."
                )
            if graded and not torch.is_grad_enabled():
                raise ModelError(
                    f"the tap {name!r} runs inside no-grad code: expected a state that a gradient can be taken at. "
                    "Remove torch.no_grad() around it, or tap a later submodule."
                )
            if not h.is_floating_point():
                raise ModelError(f"the tap {name!r}: expected floating point, got {described(h)}. Tap another one.")
            seen[name] = h if h.requires_grad else h.detach().requires_grad_(graded)
            return seen[name].clone()  # later code may write into it

        with outputs_through(self.model, {name: partial(keep, name) for name in self.names}):
            logits = logits_of(called(self.model, x))
        for name in self.names:
            if name not in seen:
                self._refuse_silent(name)
        return seen, logits

    def trace(self, params: Params, x: Inputs) -> Trace:
        seen, logits = self.record(x)
        taps = [seen[name] for name in self.states]
        return Trace(taps[0], taps, [], taps[-1], logits)

    def moved(self, x: Inputs, tap: int, h: Tensor) -> Tensor:
        """The logits if the output of this tap is replaced by h."""
        with outputs_through(self.model, {self.states[tap]: lambda _: h.clone()}) as reached:
            logits = logits_of(called(self.model, x))
        if not reached:
            self._refuse_silent(self.states[tap])
        return logits

    def onward(self, params: Params, block: int, h: Tensor) -> Tensor:
        self._refuse("onward without the batch: `moved` has it")

    def init(self, generator: torch.Generator) -> dict[str, Tensor]:
        self._refuse("init")

    def embed(self, params: Params, x: Tensor) -> Tensor:
        self._refuse("embed")

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        self._refuse("branch")

    def readout(self, params: Params, h: Tensor) -> Tensor:
        self._refuse("readout")

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        self._refuse("join")

    def _refuse_silent(self, name: str) -> NoReturn:
        raise ModelError(
            f"the tap {name!r} does not run in a forward pass of this model with gradients "
            f"{'on' if torch.is_grad_enabled() else 'off'}: expected a submodule that always runs. Leave it out; "
            "instead of a compiled or scripted model, give the original."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(f"a foreign model has taps but no {what}: it can be measured but not trained by a rule.")


def tap_names(model: nn.Module, patterns: Sequence[str]) -> tuple[str, ...]:
    """The submodules that match some pattern; each pattern must match at least one.

    ``*`` stands for one whole component of a dotted name or a part of it, ``**`` for any number of components.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    names = [name for name, module in modules.items() if name and not isinstance(module, CONTAINERS)]
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            there = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
            raise ModelError(
                f"the taps {pattern!r} match no submodule{nearest(pattern, names)}. "
                f"Expected names or patterns of: {there or 'nothing, the model has no submodules'}"
            )
    chosen = [name for name in names if any(matches(name, pattern) for pattern in patterns)]
    first: dict[int, str] = {}
    for name in chosen:
        other = first.setdefault(id(modules[name]), name)
        if other != name:
            raise ModelError(
                f"the taps {other!r} and {name!r} are one submodule under two names: expected one use in a forward "
                "pass. Tap submodules that are not shared."
            )
    return tuple(chosen)


def matches(name: str, pattern: str) -> bool:
    """Whether a dotted name matches a pattern."""
    return _matches(tuple(name.split(".")), tuple(pattern.split(".")))


@cache
def _matches(name: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return _matches(name, pattern[1:]) or (bool(name) and _matches(name[1:], pattern))
    return bool(name) and _component(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


def _component(word: str, pattern: str) -> bool:
    head, *rest = pattern.split("*")
    if not rest:
        return word == pattern
    if not word.startswith(head) or not word.endswith(rest[-1]) or len(word) < len(head) + len(rest[-1]):
        return False
    inner = word[len(head) : len(word) - len(rest[-1])]
    for part in rest[:-1]:
        place = inner.find(part)
        if place < 0:
            return False
        inner = inner[place + len(part) :]
    return True


@contextmanager
def outputs_through(model: nn.Module, changes: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[set[str]]:
    """Apply a function to the first tensor of each named submodule's output; removes its hooks afterwards.

    Yields the set of names of the submodules that have run.
    """
    reached: set[str] = set()

    def hook(name: str, _module: nn.Module, _args: Any, output: Any) -> Any:
        reached.add(name)
        new = changed(output, changes[name])
        if new is None:
            raise ModelError(
                f"the tap {name!r}: expected an output that holds a tensor, got {type(output).__name__}. "
                "Tap another submodule."
            )
        return new

    handles = []
    try:
        for name in changes:
            handles.append(model.get_submodule(name).register_forward_hook(partial(hook, name)))
        yield reached
    finally:
        for handle in handles:
            handle.remove()


def changed(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same structure with its first tensor changed; None if it holds no tensor."""
    if isinstance(output, Tensor):
        return change(output)
    if isinstance(output, Mapping):
        for key, value in output.items():
            if (new := changed(value, change)) is not None:
                whole: Any = copy.copy(output)
                whole[key] = new
                return whole
    elif isinstance(output, tuple | list):
        for place, value in enumerate(output):
            if (new := changed(value, change)) is not None:
                parts = [*output[:place], new, *output[place + 1 :]]
                make: Any = getattr(
                    type(output), "_make", type(output)
                )  # a namedtuple takes its parts as separate arguments
                return make(parts)
    return None


def called(model: nn.Module, x: Inputs) -> Any:
    """Call the model; an exception becomes a one-line error that describes the input."""
    try:
        return model(**x) if isinstance(x, Mapping) else model(x)
    except FauditError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model failed on its input, {described(x)}: {error_text(error)}. Expected what its forward() takes: "
            "integers for an embedding, else floating point of the model's own dtype and shape."
        ) from error


def logits_of(output: Any) -> Tensor:
    """The logits in the output of a model."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    named = first.get("logits") if isinstance(first, Mapping) else getattr(first, "logits", first)
    if not isinstance(named, Tensor):
        raise ModelError(
            "the model's output: expected a tensor, an object with .logits or a tuple that begins with a tensor, "
            f"got {type(output).__name__}. Wrap the model so that it returns one."
        )
    return named


def described(x: object) -> str:
    """Type and shape, for an error."""
    if isinstance(x, Tensor):
        return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
    if isinstance(x, Mapping):
        return ", ".join(f"{name} {described(value)}" for name, value in x.items()) or "an empty mapping"
    return type(x).__name__
