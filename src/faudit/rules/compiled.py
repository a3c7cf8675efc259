"""The step of a rule as one compiled function (``--compile``).

The rule's own ``step`` is traced once with a full batch, through autograd, as a graph of tensor operations.
``torch.compile`` turns the graph into machine code. So no rule knows about compiling. A step cannot be compiled if its
operations depend on values, or if it draws random numbers.

A batch of another size, the last of an epoch, takes the eager step. Its size alone decides this, so a resumed run takes
the same steps. The compiled step differs from the eager one in the last bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from faudit.errors import error_text
from faudit.nets.net import Net, Params
from faudit.rules.rule import Rule, State, Step

AGREE = {torch.float32: 1e-3, torch.float64: 1e-9}  # largest distance of the two steps, relative to the eager one
Flat = Callable[[list[Tensor], list[Tensor], Tensor, Tensor], list[Tensor]]


class NotCompiled(Exception):
    """A step that cannot be compiled here; the message is the reason."""


@dataclass(frozen=True)
class CompiledStep:
    """Takes the place of ``rule.step`` in the training loop."""

    rule: Rule
    samples: int  # of a batch that is compiled
    names: tuple[str, ...]  # of the gradients
    code: Flat

    def __call__(
        self, net: Net, params: Params, state: State, x: Tensor, y: Tensor, *, generator: torch.Generator
    ) -> Step:
        if len(x) != self.samples:
            return self.rule.step(net, params, state, x, y, generator=generator)
        with torch.no_grad():
            loss, logits, *grads = self.code(list(params.values()), list(state.values()), x, y)
        return Step(loss, logits, dict(zip(self.names, grads, strict=True)))


def compiled(rule: Rule, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> CompiledStep:
    """The compiled step for batches like (x, y), checked against the eager one; raises ``NotCompiled``.

    Nothing that is given changes: the step is traced and checked with copies of the weights.
    """
    draw = torch.Generator().manual_seed(0)  # compiling must not draw from the generators of the run
    untouched = draw.get_state()
    eager = rule.step(net.in_training(draw), copied(params), copied(state), x, y, generator=draw)
    if not torch.equal(draw.get_state(), untouched):
        raise NotCompiled("the step draws random numbers")
    names = tuple(eager.grads)
    from torch.fx.experimental.proxy_tensor import make_fx  # only here: a run that is not compiled starts faster

    def flat(weights: list[Tensor], held: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
        named, kept = dict(zip(params, weights, strict=True)), dict(zip(state, held, strict=True))
        step = rule.step(net.in_training(draw), named, kept, x, y, generator=draw)
        return [step.loss, step.logits, *(step.grads[name] for name in names)]

    def given() -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
        return list(copied(params).values()), list(copied(state).values()), x, y

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about itself
            graph = make_fx(flat)(*given())
            # The code depends on the number of threads, so it must be in the key under which torch keeps the code.
            code = torch.compile(graph, dynamic=False, options={"cpp.threads": torch.get_num_threads()})
            with torch.no_grad():
                found = code(*given())
    except Exception as error:  # noqa: BLE001  # tracer, compiler and linker raise errors of any class
        raise NotCompiled(error_text(error)) from None
    for one, other in zip((eager.loss, eager.logits, *eager.grads.values()), found, strict=True):
        if not agree(one, other):
            raise NotCompiled("the compiled step has other results than the eager one")
    return CompiledStep(rule, len(x), names, code)


def agree(eager: Tensor, found: Tensor) -> bool:
    """Whether two results are the same up to rounding, by the norm of their difference."""
    distance, size = torch.linalg.vector_norm(found - eager), torch.linalg.vector_norm(eager)
    return bool(distance <= AGREE[eager.dtype] * size) or bool(eager.isfinite().all()) is False


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that require grad where the originals do."""
    return {name: value.detach().clone().requires_grad_(value.requires_grad) for name, value in tensors.items()}
