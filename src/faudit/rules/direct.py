"""The mechanism of every direct-feedback rule: one signal from the output to each hidden layer, without a way between.

A *place* is where the output of a layer is read: by the next Linear or Conv2d of the same part of the net, or at the
end of the part (h_0 for the embedding, f_l for block l). At each place p the graph is cut and a signal enters:

    objective = ℓ(readout) + mean over the batch of Σ_p ⟨o_p, B_p t⟩,   t = ``target`` of the rule, such as the error e,

with o_p the value that is read there. So a layer learns from (B_p t) ⊙ φ′: autograd is exact from a place back to the
layer in front of it, through activation, pooling, BatchNorm or attention, and ends there. The true loss teaches the
readout. There is no normalisation and no clipping. This is where Nøkland's code puts the feedback.

What follows for each net:
- mlp, lenet, cnn: at most one layer per part, so the places are the taps; an embedding without weights has none.
- resmlp, student: W1 learns at the activation that W2 reads, W2 at the branch f_l. The LayerNorm in front of W1 belongs
  to W1's stretch and gets the exact gradient through W1.
- vit: qkv learns at the mixed values that ``out`` reads, through the attention. ``out`` learns at LN(h + a), which W1
  reads and which teaches that LayerNorm too, and at f_l = a + m, of which it is a summand. W1 and W2 are as in resmlp.
  The net spreads every signal over its tokens (``credit_tokens``).
- resnet: the first convolution of a block learns at the ReLU that the second one reads, with the BatchNorm between
  them; the second one, and a 1 × 1 convolution beside it, at f_l. The BatchNorm in front learns through what reads it.
- In resmlp, student and vit, h_0 and f_0 are both taught at tap 0 and share one matrix, as in ``dfa``.

Feedback is named "B.<tap>" at the end of a part, and "B.<weight that reads>" inside. On the feature maps of a
convolution the matrix of a place has one of three forms (``feedback``); a place without a map has the dense one:
- dense: one row for each feature of the map, (channels · height · width, C). Nøkland 2016, Frenkel 2021, Webster 2020.
- shared: one row for each channel, the same at every position, (channels, C).
- tiled: the error is repeated over the map and convolved with one 3 × 3 kernel for each channel and class, padding 1,
  (channels, C, 3, 3). BioTorch's form. Away from the border it equals shared feedback with the sums of the kernels.
All are drawn from N(0, 1)/√C times ``feedback_scale``; a kernel is divided by 3, so that the signals are as large.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from faudit.nets.net import Net, Params, empty, normal, part
from faudit.rules.dfa import heads
from faudit.rules.rule import Objective, Rule, State, Step, descended, inner
from faudit.settings import number, one_of, setting

KERNEL = 3  # pixels along a side of a kernel of tiled feedback


@dataclass(frozen=True)
class Place:
    """Where a signal enters. ``reader`` is the weight that reads the value, None at the end of a part."""

    feedback: str
    reader: str | None
    shape: tuple[int, ...]  # of the signal of one sample: (features,), or (channels, height, width) of a map


@dataclass(frozen=True)
class DirectRule(Rule):
    """Base class of direct-feedback rules. A subclass adds ``target``, what the feedback matrices project."""

    feedback: str = setting("dense", one_of(("dense", "shared", "tiled")), "form of the feedback to convolutions")
    feedback_scale: float = setting(1.0, number(0.0, above=True), "spread of the initial feedback, in units of 1/√C")

    @abstractmethod
    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        """What is projected to every hidden layer, [n, C], of each sample."""

    def refusal(self, net: Net) -> str | None:
        found = places(net)
        names = Counter(place.feedback for place in found if place.reader)
        if twice := [name for name, count in names.items() if count > 1]:
            return f"it reads hidden states with {twice[0].removeprefix('B.')} more than once"
        if self.feedback != "dense" and not any(is_map(place) for place in found):
            return f"{self.feedback} feedback is for the maps of convolutions, and it has none"
        return None

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        std = self.feedback_scale * net.classes**-0.5
        return {
            place.feedback: drawn(self.form(place), place, generator, classes=net.classes, std=std)
            for place in places(net)
        }

    @final
    def form(self, place: Place) -> str:
        """The form of the feedback at a place."""
        return self.feedback if is_map(place) else "dense"

    @final
    def objective(self, net: Net, params: Params, state: State, x: Tensor, y: Tensor) -> Objective:
        """ℓ + Σ_p ⟨o_p, B_p t⟩ / n, over a graph that is cut at every place."""
        found = places(net)
        readers = [place.reader for place in found if place.reader]
        cuts = Cuts({name: params[name] for name in readers})
        with cuts if readers else nullcontext():
            trace = net.trace_cut(params, x)
        loss = net.loss(trace.logits, y)
        target = self.target(net, trace.logits.detach(), y) / len(x)
        signals = {place.feedback: target @ self.matrix(state, place).T for place in found}
        outputs = [("B.0", trace.embedded), *((f"B.{name}", read) for name, read in cuts.read.items())]
        outputs += [(f"B.{net.taught_at(l)}", branch) for l, branch in enumerate(trace.branches)]
        value = loss
        for name, output in outputs:
            if name in signals:
                value = value + inner(output, net.spread(signals[name], output))
        return Objective(value, loss, trace.logits)

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
        learned = {name: value for name, value in state.items() if self.trains_state(name)}
        return descended(self, self.objective(net, params, state, x, y), {**params, **learned})

    @final
    def matrix(self, state: State, place: Place) -> Tensor:
        """The feedback of a place as one matrix of (features, C)."""
        return as_matrix(self.form(place), state[place.feedback], place.shape)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        target = self.target(net, logits, y)
        signals = {place.feedback: target @ self.matrix(state, place).T for place in places(net) if not place.reader}
        return [
            signals[f"B.{l}"] if f"B.{l}" in signals else torch.zeros_like(net.tap(h))
            for l, h in enumerate(taps[: net.signals])
        ]

    def forward_of(self, net: Net, params: Params) -> dict[str, Tensor]:
        own = {place.feedback for place in places(net)}
        return {name: head for name, head in heads(net, params).items() if name in own}


class Cuts(TorchFunctionMode):
    """Cuts the graph at the input of some layers; ``read`` is what each of them read, with its graph."""

    def __init__(self, weights: Params) -> None:
        super().__init__()
        self._names = {id(weight): name for name, weight in weights.items()}
        self.read: dict[str, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if (layer := layer_of(func, args, kwargs)) and (name := self._names.get(id(layer[1]))):
            self.read[name] = layer[0]
            return with_input(func, layer[0].detach(), args, kwargs)
        return func(*args, **(kwargs or {}))


class Survey(TorchFunctionMode):
    """Finds the layers that read what an earlier layer of the same part gave; only such a value requires grad."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self._names = {id(value): name for name, value in params.items()}
        self.found: list[tuple[str, Tensor]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if (layer := layer_of(func, args, kwargs)) and (name := self._names.get(id(layer[1]))):
            if layer[0].requires_grad:
                self.found.append((name, layer[0]))
            return result.detach().requires_grad_()
        return result


def layer_of(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> tuple[Tensor, Tensor] | None:
    """Input and weight of a call, if it is that of a layer."""
    if func is not F.linear and func is not F.conv2d:
        return None
    named = dict(zip(("input", "weight"), args, strict=False)) | (kwargs or {})
    return named["input"], named["weight"]


def with_input(func: Callable[..., Any], given: Tensor, args: tuple[Any, ...], kwargs: Any) -> Any:
    """The result of a layer's call with another input."""
    return func(given, *args[1:], **{name: value for name, value in (kwargs or {}).items() if name != "input"})


@cache
def places(net: Net) -> tuple[Place, ...]:
    """The places of a net, those at the taps first; cached, because a net is immutable."""
    net = replace(net, training=None)  # a survey writes no statistics and draws no masks
    params = net.init(torch.Generator().manual_seed(0))
    survey = Survey(params)
    with survey, torch.enable_grad():
        taps = [net.embed(params, empty(1, *net.sample_shape).zero_()).detach()]
        for l in range(net.blocks):
            taps.append(net.join(taps[l], net.branch(params, l, taps[l])).detach())
    first = 0 if net.taught_at(0) == 0 or any(part(name) == "embed" for name in params) else 1
    ends = (Place(f"B.{l}", None, signal_shape(net, taps[l])) for l in range(first, net.signals))
    return (*ends, *(Place(f"B.{name}", name, signal_shape(net, read)) for name, read in survey.found))


def signal_shape(net: Net, h: Tensor) -> tuple[int, ...]:
    """The shape of a signal for one sample of h: that of a map if the net measures the whole of one."""
    features = net.tap(h).shape[1]
    return tuple(h.shape[1:]) if h.dim() == 4 and h[0].numel() == features else (features,)


def is_map(place: Place) -> bool:
    """Whether a place is a feature map."""
    return len(place.shape) == 3


def drawn(form: str, place: Place, generator: torch.Generator, *, classes: int, std: float) -> Tensor:
    """New feedback for a place."""
    if form == "dense":
        return normal(generator, torch.Size(place.shape).numel(), classes, std=std)
    if form == "shared":
        return normal(generator, place.shape[0], classes, std=std)
    return normal(generator, place.shape[0], classes, KERNEL, KERNEL, std=std / KERNEL)


def as_matrix(form: str, feedback: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Feedback of any form as the dense matrix (features, C) that gives the same signals."""
    if form == "dense":
        return feedback
    if form == "shared":
        return feedback.repeat_interleave(shape[1] * shape[2], dim=0)
    channels, classes = feedback.shape[:2]
    error = feedback.new_ones(1, 1, *shape[1:])  # of one class, repeated over the map
    sums = F.conv2d(error, feedback.reshape(channels * classes, 1, KERNEL, KERNEL), padding=KERNEL // 2)
    return sums.view(channels, classes, -1).transpose(1, 2).reshape(-1, classes)
