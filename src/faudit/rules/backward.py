"""Weight-level rules: in the backward pass every weight W is replaced by a tensor B of its shape.

Forward: z = W x + b.  Backward: ∂ℓ/∂x is B ∂ℓ/∂z instead of Wᵀ ∂ℓ/∂z (B is stored in the shape of W), while the
gradients of W and b stay exact for the error that arrives. This holds for every ``F.linear`` and ``F.conv2d`` of a net,
so for the projections of attention too. With B = W the pass is backpropagation to the last bit.

``sent_back`` gives a net weights that carry their B. The two functions see it and take another backward pass, and no
other operation of the step is touched. The weights that have a B are found in one forward pass (``replaceable``). The
first layer has none, because nothing learns from the error at the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from faudit.errors import ConfigError
from faudit.nets.net import Net, Params, empty, is_buffer
from faudit.rules.bp import tap_gradients
from faudit.rules.rule import Objective, Rule, State, Step, descended
from faudit.settings import number, one_of, setting

# Uses of a matrix that send an error back through its transpose, by the name that torch gives them.
PRODUCTS = (
    "matmul", "__matmul__", "__rmatmul__", "mm", "addmm", "bmm", "baddbmm", "einsum", "tensordot", "bilinear", "conv1d",
    "conv3d", "conv_transpose2d", "multi_head_attention_forward", "t", "transpose", "permute",
)  # fmt: skip
TRANSPOSES = (Tensor.T.__get__, Tensor.mT.__get__)  # type: ignore[attr-defined]  # properties written in C


@dataclass(frozen=True)
class WeightRule(Rule):
    """Base class of weight-level rules. A subclass may change the feedback of a step, train it or update it."""

    feedback_init: str = setting(
        "layer",
        one_of(("layer", "uniform", "normal", "xavier-uniform", "xavier-normal")),
        "initial feedback: as the layer's weight, U(±1), N(0, 1), U(±√(6/n)) or N(0, 2/n), n = inputs + outputs",
    )
    feedback_scale: float = setting(1.0, number(0.0, above=True), "factor of the initial feedback")

    def refusal(self, net: Net) -> str | None:
        try:
            return None if replaceable(net) else "it has no weight above another one, so no error is sent back"
        except ConfigError as error:
            return str(error)

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return self.drawn(net, generator)

    def drawn(self, net: Net, generator: torch.Generator) -> dict[str, Tensor]:
        """New feedback for each weight that has one, from the initial distribution."""
        if self.feedback_init == "layer":
            weights = net.init(generator)
            return {f"B.{name}": weights[name] * self.feedback_scale for name in replaceable(net)}
        draw = DRAWS[self.feedback_init]
        return {
            f"B.{name}": draw(empty(*shape), self.feedback_scale, generator) for name, shape in replaceable(net).items()
        }

    def feedback(self, net: Net, params: Params, state: State) -> dict[str, Tensor]:
        """What replaces each weight in the backward pass, by the name of the weight."""
        return {name: state[f"B.{name}"].detach() for name in replaceable(net)}

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        return {f"B.{name}": params[name] for name in replaceable(net)}

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
        logits = net.forward(sent_back(params, self.feedback(net, params, state)), x)
        loss = net.loss(logits, y)
        return descended(self, Objective(loss, loss, logits), params)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        """The pseudo-gradient of each sample's loss at the teaching taps."""
        through = sent_back(params, self.feedback(net, params, state))
        return [net.tap(gradient) for gradient in tap_gradients(net, through, taps[0], y)[: net.signals]]


def weight_of(name: str) -> str:
    """The weight that a feedback tensor replaces, by name."""
    return name.removeprefix("B.")


def sent_back(params: Params, feedback: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a net, which then sends errors back through ``feedback`` at the weights it names."""
    return {**params, **{name: carrying(params[name], value) for name, value in feedback.items()}}


class Weight(Tensor):
    """A weight that carries the tensor which replaces it in the backward pass."""

    forward: Tensor
    feedback: Tensor

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function not in REPLACED:
            raise ConfigError(unserved(function))
        return REPLACED[function](*args, **(kwargs or {}))


def carrying(weight: Tensor, feedback: Tensor) -> Tensor:
    """The weight with its feedback."""
    carried = weight.as_subclass(Weight)
    carried.forward, carried.feedback = weight, feedback
    return carried


def unserved(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", str(function))
    return f"it uses a weight in {name!r}, and only F.linear and F.conv2d can send an error back through feedback"


def linear(input: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    """``F.linear`` with a weight that carries its feedback."""
    out: Tensor = Linear.apply(input, weight.forward, weight.feedback, bias)  # type: ignore[no-untyped-call]
    return out


def conv2d(
    input: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """``F.conv2d`` with a weight that carries its feedback."""
    if isinstance(padding, str):
        raise ConfigError(f"it pads a convolution by {padding!r}, and feedback needs the padding as a number")
    shape = (pair(stride), pair(padding), pair(dilation), groups)
    out: Tensor = Conv2d.apply(input, weight.forward, weight.feedback, bias, shape)  # type: ignore[no-untyped-call]
    return out


def pair(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return (size, size) if isinstance(size, int) else tuple(size)


class Linear(torch.autograd.Function):
    """z = x Wᵀ + b; back: ∂ℓ/∂x = ∂ℓ/∂z B, the others exact. All products have the type of z, that of autocast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, feedback: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, feedback)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> tuple[Tensor | None, ...]:
        (signal,), (x, feedback) = signals, (saved.to(signals[0].dtype) for saved in ctx.saved_tensors)
        of_x, of_weight, _, of_bias = ctx.needs_input_grad
        rows = signal.reshape(-1, signal.shape[-1])  # [samples · tokens, outputs]
        return (
            signal @ feedback if of_x else None,
            rows.T @ x.reshape(-1, x.shape[-1]) if of_weight else None,
            None,
            rows.sum(0) if of_bias else None,
        )


class Conv2d(torch.autograd.Function):
    """The same for a convolution, whose transpose is another convolution."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, feedback: Tensor, bias: Tensor | None, shape: tuple[Any, ...]
    ) -> Tensor:
        ctx.save_for_backward(x, feedback)
        ctx.shape = shape
        return F.conv2d(x, weight, bias, *shape)

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> tuple[Tensor | None, ...]:
        x, feedback = (saved.to(signals[0].dtype) for saved in ctx.saved_tensors)
        stride, padding, dilation, groups = ctx.shape
        of_x, of_weight, _, of_bias, _ = ctx.needs_input_grad
        # Only the gradient of x depends on the values of the weight that is given here.
        back = torch.ops.aten.convolution_backward(
            signals[0], x, feedback, [len(feedback)], stride, padding, dilation, False, [0, 0], groups,
            [of_x, of_weight, of_bias],
        )  # fmt: skip
        return back[0], back[1], None, back[2], None


REPLACED: dict[Callable[..., Any], Callable[..., Tensor]] = {F.linear: linear, F.conv2d: conv2d}


@cache  # a net is immutable
def replaceable(net: Net) -> Mapping[str, tuple[int, ...]]:
    """The weights whose backward pass can be replaced, with their shapes, in the order of the forward pass.

    These are the weights of every linear or convolution call whose input depends on a parameter. Raises ``ConfigError``
    if the net sends errors back through a matrix in another way, because that way would stay exact.
    """
    weights = net.init(torch.Generator().manual_seed(0))
    params = {name: value.requires_grad_(not is_buffer(name)) for name, value in weights.items()}
    x = empty(2, *net.sample_shape).zero_()
    with Uses(params) as uses, torch.enable_grad():
        net.forward(params, x)
    net.forward(sent_back(params, {name: params[name].detach() for name in uses.found}), x)  # raises if one is unserved
    return {name: tuple(params[name].shape) for name in uses.found}


class Uses(TorchFunctionMode):
    """Watches a forward pass for the weights that send errors back."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self._names = {id(value): name for name, value in params.items() if value.dim() > 1}
        self.found: list[str] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        own = [self._names[id(arg)] for arg in args if id(arg) in self._names]
        if function in REPLACED:
            if args[0].requires_grad:
                self.found += [name for name in own if name not in self.found]
        elif own and (function in TRANSPOSES or getattr(function, "__name__", "") in PRODUCTS):
            raise ConfigError(f"{unserved(function)} ({own[0]})")
        return function(*args, **(kwargs or {}))


def uniform(out: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """U(±scale)."""
    return out.uniform_(-scale, scale, generator=generator)


def gaussian(out: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """N(0, scale²)."""
    return out.normal_(0.0, scale, generator=generator)


def fans(weight: Tensor) -> int:
    """n_in + n_out of a layer, by the shape of its weight."""
    window = prod(weight.shape[2:])
    return (weight.shape[0] + weight.shape[1]) * window


DRAWS: dict[str, Callable[[Tensor, float, torch.Generator], Tensor]] = {
    "uniform": uniform,
    "normal": gaussian,
    "xavier-uniform": lambda out, scale, generator: uniform(out, scale * (6.0 / fans(out)) ** 0.5, generator),
    "xavier-normal": lambda out, scale, generator: gaussian(out, scale * (2.0 / fans(out)) ** 0.5, generator),
}
