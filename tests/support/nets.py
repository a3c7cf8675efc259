"""Tiny nets with weights and a batch, with and without a rule; float64, where a law must hold to the last digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.nets.cnn import SmallCNN
from faudit.nets.lenet import LeNet
from faudit.nets.mlp import MLP
from faudit.nets.net import Net, is_buffer
from faudit.nets.resmlp import ResMLP
from faudit.nets.resnet import ResNet
from faudit.nets.student import StudentNet
from faudit.nets.vit import ViT
from faudit.probes.probe import Reading
from faudit.rng import generators
from faudit.rules import RULES
from faudit.rules.rule import Rule, Step

CLASSES = 5

# One tiny instance of every net, and of every variant whose mathematics differs. A new net adds its own.
TINY_NETS: dict[str, Callable[[], Net]] = {
    "resmlp": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.4),
    "resmlp-no-norm": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.4, no_terminal_norm=True),
    "resmlp-no-residual": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.8, no_residual=True),
    "vit": lambda: ViT((1, 4, 4), CLASSES, depth=3, width=8, patch=2, heads=2),
    "vit-cls": lambda: ViT((1, 4, 4), CLASSES, depth=3, width=8, patch=2, heads=2, credit_tokens="cls"),
    "student": lambda: StudentNet((1, 4, 4), CLASSES, depth=3, width=6),
    "student-half-linear": lambda: StudentNet((1, 4, 4), CLASSES, depth=3, width=6, alpha=0.5),
    "cnn": lambda: SmallCNN((1, 4, 4), CLASSES),
    "mlp": lambda: MLP((1, 4, 4), CLASSES, sizes=(7, 6, 6)),
    "mlp-relu": lambda: MLP((1, 4, 4), CLASSES, sizes=(7, 6, 6), activation="relu"),
    "mlp-one": lambda: MLP((1, 4, 4), CLASSES, sizes=(6,), activation="sigmoid", criterion="bce", weight_init="normal"),
    "mlp-norm": lambda: MLP(
        (1, 4, 4), CLASSES, sizes=(9, 8), activation="relu", criterion="mse", dropout=0.2, batch_norm=True, no_bias=True
    ),
    "lenet": lambda: LeNet((1, 12, 12), CLASSES),
    "resnet": lambda: ResNet((1, 4, 4), CLASSES, depth=6, width=2),
}
RESMLPS = [name for name in TINY_NETS if name.startswith("resmlp")]  # what the oracle by hand knows


class TinyNet:
    """A net with weights and a batch."""

    def __init__(self, net: str, seed: int = 0) -> None:
        self.net: Net = TINY_NETS[net]()
        self.generators = generators(seed)
        weights = self.net.init(self.generators["init"])
        self.params = {name: value.double().requires_grad_(not is_buffer(name)) for name, value in weights.items()}
        draw = torch.Generator().manual_seed(seed + 1)
        self.x: Tensor = torch.randn(7, *self.net.sample_shape, dtype=torch.float64, generator=draw)
        self.y: Tensor = torch.randint(self.net.classes, (7,), generator=draw)

    def exact(self) -> dict[str, Tensor]:
        """The gradient of the loss, by autograd through the whole net."""
        loss = self.net.loss(self.net.forward(self.params, self.x), self.y)
        trained = {name: value for name, value in self.params.items() if value.requires_grad}
        return dict(zip(trained, torch.autograd.grad(loss, list(trained.values())), strict=True))


class Setup(TinyNet):
    """A rule on a net with weights, feedback and a batch."""

    def __init__(self, rule: str, net: str, seed: int = 0, **settings: Any) -> None:
        super().__init__(net, seed)
        self.rule: Rule = RULES[rule](**settings)
        if reason := self.rule.refusal(self.net):
            pytest.skip(reason)
        drawn = self.rule.init(self.net, self.x, self.generators["feedback"])
        self.state = {
            name: value.double().requires_grad_(self.rule.trains_state(name)) for name, value in drawn.items()
        }

    def step(self) -> Step:
        """One step of the rule; what it draws is the same every time."""
        generator = torch.Generator().manual_seed(2)
        return self.rule.step(self.net, self.params, self.state, self.x, self.y, generator=generator)

    def grads(self) -> dict[str, Tensor]:
        return self.step().grads

    def credit(self) -> list[Tensor]:
        trace = self.net.trace(self.params, self.x)
        return self.rule.credit(self.net, self.params, self.state, trace.taps, trace.logits, self.y)

    def reading(self) -> Reading:
        return Reading(self.net, self.rule, self.params, self.state, self.x, self.y)


def tiny_dataset(train: int = 60, test: int = 20) -> Dataset:
    draw = torch.Generator().manual_seed(7)
    x = torch.randint(17, (train + test, 1, 4, 4), generator=draw, dtype=torch.uint8)
    y = torch.arange(train + test) % CLASSES
    return Dataset("tiny", x[:train], y[:train], x[train:], y[train:], CLASSES, (0.5,), (0.3,), scale=16.0)
