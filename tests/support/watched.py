"""A small model, its data, a plain training loop, and the watch around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit
from faudit.watch.loop import Watch
from tests.support.models import CLASSES

DEPTH, WIDTH = 3, 16


class MLP(nn.Module):
    """A linear embedding, three tanh blocks, a head."""

    def __init__(self, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)  # type: ignore[no-any-return]  # nn.Module returns Any


def data(samples: int = 200, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Labels that a random network gives, so that they can be learned."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, WIDTH, generator=draw)
    teacher = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(99))
    return x.to(dtype), (x @ teacher).argmax(dim=1)


def train(model: nn.Module, w: Watch | None = None, *, epochs: int = 6, lr: float = 0.5) -> None:
    optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=lr)
    for epoch in range(epochs):
        total = 0.0
        for place in range(4):
            x, y = data(50, seed=10 * epoch + place + 1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() / 4
        if w is not None:
            w.log(epoch, train_loss=total, lr=lr)


def watched(model: nn.Module, runs: Path, **options: Any) -> Watch:
    return faudit.watch(model, **{"eval_batch": data(), "taps": "blocks.*", "runs": runs, "name": "mine", **options})
