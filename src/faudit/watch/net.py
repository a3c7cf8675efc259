"""Any ``nn.Module`` with a net's face: its taps are the outputs of named submodules, in the order in which they run.

A forward hook reads a tap, and another puts a moved state in its place and lets the rest of the model run: the model's
own code stays the only definition of what it computes. Where a submodule returns a tuple, a list or a mapping, the tap
is its first tensor, and what is put back has the same structure. There is no embedding, branch or readout to call, so
no rule can train such a net; probes can read it. The model given here is written to by nobody but its own ``forward``.
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
from faudit.nets.net import Net, Params, Trace
from faudit.registry import nearest

Inputs = Tensor | Mapping[str, Tensor]  # what a model is called with: model(x), or model(**x)

CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)  # held, never called
LISTED = 20  # names in an error; of a large model there are thousands


@dataclass(frozen=True, eq=False)
class ForeignNet(Net):
    """A model and the names of its taps; each tap carries a signal and is held against the gradient at the same tap."""

    model: nn.Module
    names: tuple[str, ...]

    @property
    def blocks(self) -> int:
        return len(self.names)

    @property
    def is_pure(self) -> bool:
        return False  # hooks come and go

    def record(self, x: Inputs) -> tuple[dict[str, Tensor], Tensor]:
        """One pass: each tap by name, in the order in which they came, and the logits.

        Where gradients are on, every tap is in the graph, whether or not the model's weights ask for gradients.
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
                    "Remove torch.no_grad() around it, or tap what comes after."
                )
            if not h.is_floating_point():
                raise ModelError(f"the tap {name!r}: expected floating point, got {described(h)}. Tap another one.")
            seen[name] = h if h.requires_grad else h.detach().requires_grad_(graded)
            return seen[name].clone()  # what follows may write into it

        with outputs_through(self.model, {name: partial(keep, name) for name in self.names}):
            logits = logits_of(called(self.model, x))
        for name in self.names:
            if name not in seen:
                self._refuse_silent(name)
        return seen, logits

    def trace(self, params: Params, x: Inputs) -> Trace:
        seen, logits = self.record(x)
        taps = [seen[name] for name in self.names]
        return Trace(taps[0], taps, [], logits)

    def moved(self, x: Inputs, tap: int, h: Tensor) -> Tensor:
        """The logits had this tap been h, whatever the model computes before it."""
        with outputs_through(self.model, {self.names[tap]: lambda _: h.clone()}) as reached:
            logits = logits_of(called(self.model, x))
        if not reached:
            self._refuse_silent(self.names[tap])
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
            f"{'on' if torch.is_grad_enabled() else 'off'}: expected a submodule that always does. Leave it out; of a "
            "compiled or scripted model, give the original."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(f"a foreign model has taps and no {what}: it can be measured, not trained by a rule.")


def tap_names(model: nn.Module, patterns: Sequence[str]) -> tuple[str, ...]:
    """The submodules that some pattern matches; each pattern must match one.

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
    """Whether a dotted name is one that a pattern means."""
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
    """Send the first tensor of each named submodule's output through a function; no hook is left behind.

    Yields the names of those that ran, which is empty until they do.
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
    """The same structure with its first tensor changed; None where it holds none."""
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
                make: Any = getattr(type(output), "_make", type(output))  # a namedtuple takes its parts one by one
                return make(parts)
    return None


def called(model: nn.Module, x: Inputs) -> Any:
    """The model's output; whatever it raises becomes one line that says what it was given."""
    try:
        return model(**x) if isinstance(x, Mapping) else model(x)
    except FauditError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model failed on its input, {described(x)}: {told(error)}. Expected what its forward() takes: "
            "integers for an embedding, else floating point of the model's own dtype and shape."
        ) from error


def logits_of(output: Any) -> Tensor:
    """The tensor that the loss is taken of."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    named = first.get("logits") if isinstance(first, Mapping) else getattr(first, "logits", first)
    if not isinstance(named, Tensor):
        raise ModelError(
            "the model's output: expected a tensor, an object with .logits or a tuple that begins with a tensor, "
            f"got {type(output).__name__}. Wrap the model so that it returns one."
        )
    return named


def described(x: object) -> str:
    """Type and shape for an error."""
    if isinstance(x, Tensor):
        return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
    if isinstance(x, Mapping):
        return ", ".join(f"{name} {described(value)}" for name, value in x.items()) or "an empty mapping"
    return type(x).__name__


def told(error: BaseException) -> str:
    """What an exception of somebody else's code says, on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}" + (f": {lines[0].rstrip('.')}" if lines else "")
