"""PEPITA: a second forward pass with the error added to the input; layers learn from how their activity changes.

First pass: h_l for the input x, and e = ∂ℓ/∂logits.  Second pass: h_l' for the input x + F e, F fixed, with the same
dropout masks. A layer with weight W_l between h_{l−1} and h_l gets the gradient

    mean over the batch of (h_l − h_l') h'_{l−1}ᵀ,   the readout that of the loss of the second pass, e' h'_Lᵀ

without the derivative of the activation. Where a block has several layers, its last linear map gets h_l − h_l' as the
gradient at its output, and autograd is exact inside the block. With a skip, h_l − h_l' is the difference of the whole
states. The graph is cut at every tap.
Stores F ("B.input", one row for each input and one column for each class), with entries U(±s√(6/inputs)). Costs two
forward passes and one product per layer. Dellaferrera & Kreiman, ICML 2022; the readout as in the authors' code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from faudit.nets.net import Net, Params, empty, is_buffer
from faudit.rules import Card
from faudit.rules.rule import Objective, Rule, State, Step, descended, inner
from faudit.settings import number, setting


@dataclass(frozen=True)
class Pepita(Rule):
    """Error-driven input modulation."""

    card: ClassVar[Card] = Card(
        title="PEPITA: the error presented as a change of the input",
        formula="ΔW_l ∝ −(h_l − h_l′) h′_{l−1}ᵀ, where h′ is the pass with the input x + F e",
        reference="Dellaferrera & Kreiman, ICML 2022",
        stores="one matrix of inputs × classes",
        needs=("global error", "second forward pass"),
        cost="two forward passes, and one product per layer",
        fails="deeper than three hidden layers it learns little; it needs a small F and a small learning rate",
    )
    no_credit: ClassVar[str | None] = "its error enters as a second input, and no signal is sent to the taps"

    input_feedback: float = setting(
        0.05, number(0.0, above=True), "s, the size of F against a layer's He-uniform weights"
    )

    def refusal(self, net: Net) -> str | None:
        weights = net.init(torch.Generator().manual_seed(0))
        if any(map(is_buffer, weights)):
            return "PEPITA says nothing about the scale and shift of a BatchNorm"
        with torch.no_grad():
            trace = net.trace(weights, empty(1, *net.sample_shape).zero_())
        if any(h.dim() != 2 for h in trace.taps):
            return "PEPITA is defined for vectors of activity, not for feature maps or tokens"
        return None

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        inputs = prod(sample.shape[1:])
        bound = self.input_feedback * (6.0 / inputs) ** 0.5
        return {"B.input": empty(inputs, net.classes).uniform_(-bound, bound, generator=generator)}

    def step(
        self,
        net: Net,
        params: Params,
        state: State,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Step:
        with torch.no_grad():
            first = net.trace(params, x)
        error = net.output_error(first.logits, y)
        h, outputs = linear_outputs(lambda: net.embed(params, x + (error @ state["B.input"].T).view_as(x)))
        value = changed(outputs, first.taps[0] - h.detach())
        for l in range(net.blocks):
            h = h.detach()
            branch, outputs = linear_outputs(lambda: net.branch(params, l, h))  # noqa: B023  # called at once
            h = net.join(h, branch)
            value = value + changed(outputs, first.taps[l + 1] - h.detach())
        value = value / len(x) + net.loss(net.readout(params, h.detach()), y)
        return descended(self, Objective(value, net.loss(first.logits, y), first.logits), params)


def changed(outputs: Collection[Tensor], difference: Tensor) -> Tensor:
    """⟨z, h − h'⟩ with z the output of a part's last linear map; zero for a part without one."""
    return inner(list(outputs)[-1], difference) if outputs else difference.new_zeros(())


def linear_outputs(run: Callable[[], Tensor]) -> tuple[Tensor, list[Tensor]]:
    """What a part of a net returns, and the output of each linear map inside it, in order."""
    with Linears() as seen:
        return run(), seen.outputs


class Linears(TorchFunctionMode):
    """Keeps the outputs of all linear maps that are computed inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is F.linear:
            self.outputs.append(result)
        return result
