"""Each optimizer makes the step of its formula, with its settings."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

from faudit.optimizers import OPTIMIZERS
from faudit.optimizers.adam import Adam
from faudit.optimizers.adamw import AdamW
from faudit.optimizers.optimizer import Optimizer
from faudit.optimizers.rmsprop import RMSprop
from faudit.optimizers.sgd import SGD

LR, DECAY = 0.1, 0.5
GRADIENTS = (3.0, -1.0)


def stepped(optimizer: Optimizer) -> list[float]:
    """A weight that begins at 2, after each of two gradients."""
    weight = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    built = optimizer.build([weight], lr=LR, weight_decay=DECAY)
    values = []
    for gradient in GRADIENTS:
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        built.step()
        values.append(weight.item())
    return values


def adam(*, beta2: float, eps: float, decoupled: bool) -> list[float]:
    w, m, v, values = 2.0, 0.0, 0.0, []
    for t, raw in enumerate(GRADIENTS, start=1):
        g = raw if decoupled else raw + DECAY * w
        w = w * (1 - LR * DECAY) if decoupled else w
        m, v = 0.9 * m + 0.1 * g, beta2 * v + (1 - beta2) * g * g
        w -= LR * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
        values.append(w)
    return values


def rmsprop(*, smoothing: float, eps: float) -> list[float]:
    w, v, values = 2.0, 0.0, []
    for raw in GRADIENTS:
        g = raw + DECAY * w
        v = smoothing * v + (1 - smoothing) * g * g
        w -= LR * g / (math.sqrt(v) + eps)
        values.append(w)
    return values


@pytest.mark.parametrize(
    ("optimizer", "want"),
    [
        (SGD(), [1.6, 1.62]),  # 2 − 0.1·(3 + 1); 1.6 − 0.1·(−1 + 0.8)
        (SGD(momentum=0.5), [1.6, 1.42]),  # the second step is 0.5·4 − 0.2
        (AdamW(), adam(beta2=0.999, eps=1e-8, decoupled=True)),
        (Adam(), adam(beta2=0.999, eps=1e-8, decoupled=False)),
        (Adam(beta2=0.5, eps=0.1), adam(beta2=0.5, eps=0.1, decoupled=False)),
        (RMSprop(), rmsprop(smoothing=0.99, eps=1e-8)),
        (RMSprop(smoothing=0.5, eps=0.1), rmsprop(smoothing=0.5, eps=0.1)),
    ],
)
def test_two_steps_by_hand(optimizer: Optimizer, want: list[float]) -> None:
    assert stepped(optimizer) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_an_optimizer_skips_a_parameter_without_a_gradient_and_takes_groups(name: str) -> None:
    trained, left = (torch.ones(2, requires_grad=True) for _ in range(2))
    groups: list[dict[str, Any]] = [{"params": [trained], "lr": 0.5}, {"params": [left]}]
    built = OPTIMIZERS[name]().build(groups, lr=LR, weight_decay=DECAY)
    assert [group["lr"] for group in built.param_groups] == [0.5, LR]
    trained.grad = torch.ones(2)
    built.step()
    assert torch.equal(left, torch.ones(2)) and not torch.equal(trained, torch.ones(2)) and left not in built.state


@pytest.mark.parametrize(
    ("ours", "torchs"),
    [(AdamW(), torch.optim.AdamW), (Adam(beta2=0.9, eps=1e-4), partial(torch.optim.Adam, betas=(0.9, 0.9), eps=1e-4))],
)
def test_the_fused_step_has_the_bits_and_the_state_of_torchs(ours: Optimizer, torchs: Any) -> None:
    """Also if other tensors step than before, and if a state is put back."""
    draw = torch.Generator().manual_seed(0)
    shapes = [(33, 17), (10,), (5, 3, 3, 3)]
    one = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    other = [weight.detach().clone().requires_grad_() for weight in one]
    own, plain = ours.build(one, lr=LR, weight_decay=DECAY), torchs(other, lr=LR, weight_decay=DECAY, fused=True)
    for trained in ((0, 1), (0, 1), (0, 1, 2), (2,), (0, 2), (0, 1, 2)):
        for place in trained:
            gradient = torch.randn(shapes[place], generator=draw)
            one[place].grad, other[place].grad = gradient, gradient.clone()
        own.step()
        plain.step()
        own.zero_grad()
        plain.zero_grad()
        for a, b in zip(one, other, strict=True):
            assert torch.equal(a, b) and own.state[a].keys() == plain.state[b].keys()
            assert all(torch.equal(own.state[a][entry], plain.state[b][entry]) for entry in own.state[a])
        own.state[one[0]] = {entry: value.clone() for entry, value in own.state[one[0]].items()}
