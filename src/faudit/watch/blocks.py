"""A watched model in the shape of a run: the named submodules are its blocks, h_0 is the input of the first one.

Block l turns h_l into h_{l+1}, its output. So a row of a watched run has the same shapes as a row of any other run, and
the credit of block l is compared with the gradient at h_{l+1}, as in nets without a skip connection. The weights of a
block are those of its submodule. What runs before the last block begins is "embed", what runs after it is "readout".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.probes import Need
from faudit.watch.net import ForeignNet, Inputs, called
from faudit.watch.reading import ForeignReading


@dataclass(frozen=True, eq=False)
class BlockNet(ForeignNet):
    """A model whose named submodules are blocks; ``names`` must be in the order in which they run."""

    @property
    def signals(self) -> int:
        return self.blocks + 1

    @property
    def states(self) -> tuple[str, ...]:
        return (f"the input of {self.names[0]}", *self.names)

    def record(self, x: Inputs) -> tuple[dict[str, Tensor], Tensor]:
        """As in ``ForeignNet``, with the input of the first block first."""
        first = self.states[0]
        with first_input(self.model.get_submodule(self.names[0])) as entered:
            seen, logits = super().record(with_graph(x) if torch.is_grad_enabled() else x)
        if not entered:
            raise ModelError(
                f"the tap {self.names[0]!r} takes no floating-point tensor: expected the input of the first block. "
                "Leave an embedding of token ids out of the taps."
            )
        h, version = entered[0]
        if h._version != version:  # no public way to see that it was written to
            raise ModelError(
                f"{first} is written to in place after the block has read it: expected code that leaves it as it was. "
                "Write h = h + f instead of h += f."
            )
        return {first: h, **seen}, logits


@contextmanager
def first_input(module: nn.Module) -> Iterator[list[tuple[Tensor, int]]]:
    """Keep the first floating-point tensor that a module is called with, and its version; the module gets a copy."""
    entered: list[tuple[Tensor, int]] = []

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for place, value in [*enumerate(args), *kwargs.items()]:
            if isinstance(value, Tensor) and value.is_floating_point():
                if torch.is_grad_enabled() and not value.requires_grad:
                    value.requires_grad_()  # the tensor itself: a skip around the block is part of its gradient
                entered.append((value, value._version))
                new = value.clone()  # the block may write into it
                if isinstance(place, int):
                    return (*args[:place], new, *args[place + 1 :]), kwargs
                return args, kwargs | {place: new}
        return None

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield entered
    finally:
        handle.remove()


def with_graph(x: Inputs) -> Inputs:
    """The inputs in a graph; they are no leaves, because a model may write into its inputs."""
    if isinstance(x, Mapping):
        return {name: with_graph_one(value) for name, value in x.items()}
    return with_graph_one(x)


def with_graph_one(x: Tensor) -> Tensor:
    return x.detach().requires_grad_().clone() if x.is_floating_point() else x


class BlockReading(ForeignReading):
    """A watched model on its evaluation batch; ``weights`` and ``began`` are those of the blocks, by part."""

    net: BlockNet

    def __init__(
        self,
        net: BlockNet,
        *args: Any,
        weights: Mapping[str, Tensor] | None = None,
        began: Mapping[str, Tensor] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(net, *args, **options)
        self.params, self.initial = dict(weights or {}), began

    @property
    def offers(self) -> frozenset[Need]:
        """As of any foreign model, and the weights of the blocks with where they began."""
        known: set[Need] = {"parameters"} if self.initial is not None else set()
        return super().offers | known


def parts_of(model: nn.Module, names: tuple[str, ...], x: Inputs) -> dict[str, str]:
    """The part of each parameter: "blocks.<l>" of the innermost block that holds it, else "embed" or "readout"."""
    order: list[str] = []
    handles = [
        module.register_forward_pre_hook(lambda _module, _args, name=name: order.append(name))
        for name, module in model.named_modules()
    ]
    try:
        with torch.no_grad():
            called(model, x)
    finally:
        for handle in handles:
            handle.remove()
    after = set(order) - set(order[: order.index(names[-1])])
    parts = {}
    for name, _ in model.named_parameters():
        inside = [block for block in names if name.startswith(f"{block}.")]
        owner = name.rpartition(".")[0]
        if inside:
            parts[name] = f"blocks.{names.index(max(inside, key=len))}"
        else:
            parts[name] = "readout" if owner in after else "embed"
    return parts
