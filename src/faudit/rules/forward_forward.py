"""Forward-forward: each layer tells right labels from wrong ones by the size of its activity.

The label is written over the first C inputs: onehot(y) for positive samples, onehot of a wrong class for negative ones,
1/C everywhere for neutral ones. The rule has a forward pass of its own, over the layers of the net:

    a_0 = x/RMS(x);  z_l = relu(W_l a_l + b_l);  a_{l+1} = z_l/RMS(z_l), cut from the graph.

Layer l descends, over positive (s = 1) and negative (s = −1) samples,

    mean log(1 + exp(−s (Σ_i z_{l,i}² − d_l))) + λ·mean_i (m̄ − m_i)²

with d_l units and m the running mean of each unit's activity in positive samples: the second term keeps units equally
active. The gradient passes the ReLU unchanged. A linear head learns the net's loss of y from the a_{l+1} of a
neutral sample, of all layers but the first (of the only layer, if there is one). Prediction is by that head, or by the
label with the largest Σ z² over the same layers. Both see the inputs alone.

The net's own forward pass, which the probes measure, is another one: the same weights, the inputs as they are and no
division by RMS. The true loss teaches the net's readout on that pass, cut at h_L, and is the loss of a step.
Stores the head ("head.weight", trained) and m of each layer ("mean.<l>"). Costs four forward passes and one product per
layer. Hinton, arXiv 2212.13345; peer normalisation, head and the ReLU's gradient as in the reproduction of Löwe (2023).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.mlp import MLP
from faudit.nets.net import Net, Params, empty
from faudit.rules import Card
from faudit.rules.rule import Group, Objective, Rule, State, Step, descended
from faudit.settings import number, one_of, setting
from faudit.tensors import sent

KEPT = 0.9  # share of a running mean that a step keeps
START = 0.5  # of every running mean
EPS = 1e-8
Layer = TypeVar("Layer")


@dataclass(frozen=True)
class ForwardStep(Step):
    """A step, and the running means that it leads to."""

    means: dict[str, Tensor]


@dataclass(frozen=True)
class ForwardForward(Rule):
    """Goodness of right labels against wrong ones, layer by layer."""

    card: ClassVar[Card] = Card(
        title="Forward-forward",
        formula="layer l descends log(1 + exp(∓(Σ z_l² − d_l))) for right and wrong labels; z_l/RMS(z_l) is passed on",
        reference="Hinton, arXiv 2212.13345, 2022; recipe of Löwe's reproduction, 2023",
        stores="a linear head on the activities, trained, and the mean activity of every unit",
        needs=("labels", "second forward pass"),
        cost="four forward passes, and one product per layer",
        fails="slow, and far behind BP beyond MNIST: a layer learns nothing for the layers above it",
    )
    no_credit: ClassVar[str | None] = "its layers compare two inputs in a pass of their own, and no signal is sent"
    no_vectors: ClassVar[str | None] = "it writes right and wrong labels into the inputs"

    peer_norm: float = setting(0.03, number(0.0), "λ of the term that keeps the units of a layer equally active")
    predict_by: str = setting(
        "head", one_of(("head", "goodness")), "predict by the head, or by the label that fits best"
    )
    head_lr: float = setting(1e-2, number(0.0, above=True), "learning rate of the head")
    head_weight_decay: float = setting(3e-3, number(0.0), "weight decay of the head")

    def refusal(self, net: Net) -> str | None:
        if not isinstance(net, MLP):
            return "forward-forward needs plain layers of one weight matrix each, those of net mlp"
        if net.activation != "relu":
            return f"goodness is the squared activity of ReLU units, got --activation {net.activation}"
        if net.batch_norm or net.dropout:
            return "forward-forward has a normalisation of its own and no dropout"
        if net.classes < 2 or prod(net.sample_shape) <= net.classes:
            return f"the {net.classes} labels must be at least 2, and fewer than the {prod(net.sample_shape)} inputs"
        return None

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        sizes = net.tap_widths(sample)[1:]
        head = empty(net.classes, sum(judged(sizes))).zero_()
        return {"head.weight": head} | {f"mean.{l}": empty(size).fill_(START) for l, size in enumerate(sizes)}

    def trains_state(self, name: str) -> bool:
        return name == "head.weight"

    def groups(self, names: Collection[str]) -> list[Group]:
        return [Group(("head.weight",), lr=self.head_lr, weight_decay=self.head_weight_decay)]

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
        right = F.one_hot(y, net.classes)
        wrong = F.one_hot(other_labels(y, net.classes, generator), net.classes)
        both = torch.cat([labelled(x, right), labelled(x, wrong)])
        value, means = x.new_zeros(()), {}
        for l, z in enumerate(activities(net, params, both)):
            excess = z.square().sum(dim=1) - z.shape[1]
            value = value + F.softplus(torch.cat([-excess[: len(x)], excess[len(x) :]])).mean()
            mean = KEPT * state[f"mean.{l}"] + (1.0 - KEPT) * z[: len(x)].mean(dim=0)
            value = value + self.peer_norm * (mean.mean() - mean).square().mean()
            means[f"mean.{l}"] = mean.detach()
        with torch.no_grad():
            plain = net.trace(params, x).taps[-1]
            seen = features(net, params, x)
        logits = net.readout(params, plain)
        loss = net.loss(logits, y)
        value = value + loss + net.loss(F.linear(seen, state["head.weight"]), y)
        step = descended(self, Objective(value, loss, logits), params, state)
        return ForwardStep(step.loss, step.logits, step.grads, means)

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        return step.means if isinstance(step, ForwardStep) else {}

    def predict(self, net: Net, params: Params, state: State, x: Tensor) -> Tensor:
        if self.predict_by == "head":
            return F.linear(features(net, params, x), state["head.weight"])
        labels = torch.eye(net.classes, dtype=x.dtype, device=x.device)
        return torch.stack([goodness(net, params, labelled(x, label)) for label in labels], dim=1)


def judged(layers: list[Layer]) -> list[Layer]:
    """The layers that a prediction looks at: all but the first, or the only one."""
    return layers[1:] or layers


def other_labels(y: Tensor, classes: int, generator: torch.Generator | None) -> Tensor:
    """A wrong label for each sample, all wrong ones equally often."""
    if generator is None:
        raise ValueError("forward-forward draws wrong labels: expected a generator, got none")
    return (y + sent(torch.randint(1, classes, y.shape, generator=generator), y.device)) % classes


def labelled(x: Tensor, label: Tensor) -> Tensor:
    """The samples as vectors with a label [C] or [n, C] over their first C entries."""
    x = x.flatten(1)
    return torch.cat([label.to(x.dtype).expand(len(x), -1), x[:, label.shape[-1] :]], dim=1)


def activities(net: Net, params: Params, x: Tensor) -> list[Tensor]:
    """z_l of every layer for labelled samples; the graph is cut between layers and passes each ReLU unchanged."""
    found, a = [], unit(x)
    for l in range(net.blocks):
        z = F.linear(a, params[f"blocks.{l}.weight"], params.get(f"blocks.{l}.bias"))
        found.append(z + (F.relu(z) - z).detach())
        a = unit(found[-1].detach())
    return found


def unit(z: Tensor) -> Tensor:
    """z divided by its RMS, per sample; the next layer cannot read the goodness of this one."""
    return z / (z.square().mean(dim=1, keepdim=True).sqrt() + EPS)


def features(net: Net, params: Params, x: Tensor) -> Tensor:
    """What the head sees of samples whose label is neutral, [n, units]."""
    neutral = torch.full((net.classes,), 1.0 / net.classes, dtype=x.dtype, device=x.device)
    return torch.cat([unit(z) for z in judged(activities(net, params, labelled(x, neutral)))], dim=1)


def goodness(net: Net, params: Params, x: Tensor) -> Tensor:
    """Σ z² of labelled samples over the layers that a prediction looks at, [n]."""
    return torch.stack([z.square().sum(dim=1) for z in judged(activities(net, params, x))]).sum(dim=0)
