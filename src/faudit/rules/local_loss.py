"""Local losses: every block, and the embedding, descends a loss of its own output; no signal comes from above.

The loss L_t at tap t is one of

    pred:     the net's loss of a linear classifier, W_t h̄_t + b_t
    sim:      mean over all pairs of the batch of (S(M_t h_t) − S(onehot(y)))², S the matrix of centred cosines
    predsim:  (1 − β)·pred + β·sim

with h_t = join(h_{t−1}, f_{t−1}(h_{t−1})) and h_{t−1} cut from the graph. The true loss teaches the readout. An
embedding without weights has no loss.

A vector of features enters as it is, and M_t is a matrix. Tokens are averaged first. Of feature maps, pred sees means
over patches, at most 4096 of them; M_t is a 3×3 convolution, and S compares the standard deviation of each of its maps.
Dropout acts after the loss, on what the next block reads, as in the authors' code.

The credit of a block is the gradient of n·L at the tap that teaches it. Without a skip this tap is the block's output.
With a skip it is the block's input, as under BP, so the gradient passes the block; the embedding's own loss is at the
same tap and is not shown. The gradient of sim depends on the other samples that are measured.
Stores W_t, b_t and M_t for each tap ("aux.<t>.…", at most 4096·C + C + d² numbers), and trains them. Costs one forward
pass, a backward pass inside each block, and the auxiliary maps. Nøkland & Eidnes, ICML 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Net, Params, empty, part
from faudit.rules import Card
from faudit.rules.rule import Objective, Rule, State, Step, descended
from faudit.settings import one_of, setting, share

LARGEST = 4096  # averages of feature maps that a classifier sees
FEW = 3  # channels up to which feature maps are compared as they are
EPS = 1e-8


@dataclass(frozen=True)
class LocalLoss(Rule):
    """A loss of its own at the output of every block."""

    card: ClassVar[Card] = Card(
        title="Local losses: prediction, similarity matching, or both",
        formula="block l descends L(h_{l+1}) = (1 − β)·loss(W h_{l+1}, y) + β·mean (S(M h_{l+1}) − S(onehot(y)))²",
        reference="Nøkland & Eidnes, ICML 2019",
        stores="a classifier and a map of each block's output, both trained",
        needs=("labels", "auxiliary net"),
        cost="one forward pass, a backward pass inside each block, and the auxiliary maps",
        fails="early blocks discard what only later blocks could use, so depth brings less than under BP",
    )
    no_vectors: ClassVar[str | None] = "its blocks predict and compare the labels of classes"

    local_loss: str = setting(
        "predsim", one_of(("pred", "sim", "predsim")), "loss of a block: prediction, similarity matching, or both"
    )
    sim_share: float = setting(0.99, share, "β of predsim, the share of similarity matching")

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        weights = net.init(torch.Generator().manual_seed(0))
        with torch.no_grad():
            taps = net.trace(weights, empty(1, *sample.shape[1:]).zero_()).taps
        state: dict[str, Tensor] = {}
        for t in range(0 if any(part(name) == "embed" for name in weights) else 1, len(taps)):
            state |= self._auxiliary(f"aux.{t}", taps[t], net.classes, generator)
        return state

    def _auxiliary(self, name: str, h: Tensor, classes: int, generator: torch.Generator) -> dict[str, Tensor]:
        """New weights of the loss at one tap; the classifier starts at zero, so that at first only it learns."""
        state: dict[str, Tensor] = {}
        if self.local_loss != "sim":
            inputs = averaged(h).shape[1]
            state[f"{name}.pred.weight"] = empty(classes, inputs).zero_()
            state[f"{name}.pred.bias"] = empty(classes).uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)
        if self.local_loss != "pred":
            shape = (h.shape[1], h.shape[1], 3, 3) if h.dim() == 4 else 2 * h.shape[-1:]
            bound = prod(shape[1:]) ** -0.5
            state[f"{name}.sim.weight"] = empty(*shape).uniform_(-bound, bound, generator=generator)
        return state

    def trains_state(self, name: str) -> bool:
        return True

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
        trace = net.trace_cut(params, x)
        loss = net.loss(trace.logits, y)
        outputs = [trace.embedded, *trace.branches]
        if (whole := net.undropped()) is not net:
            outputs = [whole.embed(params, x), *(whole.branch(params, l, h) for l, h in enumerate(trace.taps[:-1]))]
        value = loss + self._loss_at(0, outputs[0], net=net, state=state, y=y)
        for l, branch in enumerate(outputs[1:]):
            value = value + self._loss_at(l + 1, net.join(trace.taps[l], branch), net=net, state=state, y=y)
        return descended(self, Objective(value, loss, trace.logits), params, state)

    def _loss_at(self, tap: int, h: Tensor, *, net: Net, state: State, y: Tensor) -> Tensor:
        """The local loss of a state at a tap; zero at the output of an embedding without weights."""
        name, total = f"aux.{tap}", h.new_zeros(())
        if tap == 0 and not any(key.startswith(f"{name}.") for key in state):
            return total
        beta = {"pred": 0.0, "sim": 1.0}.get(self.local_loss, self.sim_share)
        if self.local_loss != "sim":
            logits = F.linear(averaged(h), state[f"{name}.pred.weight"], state[f"{name}.pred.bias"])
            total = total + (1.0 - beta) * net.loss(logits, y)
        if self.local_loss != "pred":
            labels = F.one_hot(y, net.classes).to(h.dtype)
            found, wanted = similarities(mapped(h, state[f"{name}.sim.weight"])), similarities(labels)
            total = total + beta * F.mse_loss(found, wanted)
        return total

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        has_skip = net.taught_at(0) == 0
        signals = []
        for t in range(net.signals):
            with torch.enable_grad():
                h = taps[t].detach().requires_grad_()
                tap, judged = (t + 1, net.join(h, net.branch(params, t, h))) if has_skip else (t, h)
                loss = len(y) * self._loss_at(tap, judged, net=net, state=state, y=y)
                taught = loss.requires_grad  # no embedding without weights is
                signals.append(net.tap(torch.autograd.grad(loss, h)[0] if taught else torch.zeros_like(h)))
        return signals


def averaged(h: Tensor) -> Tensor:
    """A hidden state as a classifier sees it, [n, features]: tokens are averaged, large maps over patches."""
    if h.dim() == 3:
        return h.mean(dim=1)
    if h.dim() == 4:
        h = F.adaptive_avg_pool2d(h, patches(*h.shape[1:]))
    return h.flatten(1)


def patches(channels: int, height: int, breadth: int) -> tuple[int, int]:
    """The size to which maps are averaged: halved, the height first, until all channels together have few features."""
    while channels * height * breadth > LARGEST and max(height, breadth) > 1:
        if height >= breadth:
            height = ceil(height / 2)
        else:
            breadth = ceil(breadth / 2)
    return height, breadth


def mapped(h: Tensor, weight: Tensor) -> Tensor:
    """M h as similarities are taken of it, [n, features]: of feature maps the standard deviation of each."""
    if h.dim() == 4:
        maps = F.conv2d(h, weight, padding=1).flatten(2)
        return maps.std(dim=2) if maps.shape[1] > FEW and maps.shape[2] > 1 else maps.flatten(1)
    return F.linear(averaged(h), weight)


def similarities(z: Tensor) -> Tensor:
    """The cosines between all samples, each centred over its features, [n, n]; zero for a constant sample."""
    centred = z - z.mean(dim=1, keepdim=True)
    directions: Tensor = centred / (torch.linalg.vector_norm(centred, dim=1, keepdim=True) + EPS)
    return directions @ directions.T
