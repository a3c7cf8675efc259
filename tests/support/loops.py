"""Training loops that are not faudit's: each trains a small model and calls ``log`` after every epoch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.models import CLASSES, WIDTH, batch

EPOCHS, BATCHES = 2, 3
Log = Callable[[int], Any]
Compare = Callable[[Tensor, Tensor], Any]


class Stack(nn.Module):
    """An embedding, two blocks with a BatchNorm and a dropout, a head; ``tied`` makes the blocks share a weight."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(inplace=True), nn.Dropout(0.3))
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, CLASSES)
        if tied:
            self.blocks[1][0].weight = self.blocks[0][0].weight  # type: ignore[index]  # both are stacks

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)  # type: ignore[no-any-return]  # nn.Module returns Any


def batches(epoch: int) -> list[tuple[Tensor, Tensor]]:
    return [batch(seed=100 * epoch + place) for place in range(BATCHES)]


def stepped(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    compare: Compare,
    *,
    changed: Callable[[Tensor], Tensor] = lambda x: x,
) -> None:
    """One epoch of backprop; ``changed`` is what the loop does to a batch."""
    for x, y in batches(epoch):
        optimizer.zero_grad()
        F.cross_entropy(model(changed(x)), y).backward()
        compare(x, y)
        optimizer.step()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def plain(model: nn.Module, log: Log, compare: Compare) -> None:
    optimizer = sgd(model)
    for epoch in range(EPOCHS):
        stepped(model, optimizer, epoch, compare)
        log(epoch)


def noisy(model: nn.Module, log: Log, compare: Compare) -> None:
    """Every generator of Python, numpy and torch is in use between two rows."""

    def changed(x: Tensor) -> Tensor:
        return x * (random.random() + float(np.random.rand())) + 0.1 * torch.randn_like(x)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        stepped(model, optimizer, epoch, compare, changed=changed)
        log(epoch)


def accumulating(model: nn.Module, log: Log, compare: Compare) -> None:
    """Rows are written in the middle of an accumulated gradient."""
    optimizer = sgd(model)
    for epoch in range(EPOCHS):
        for x, y in batches(epoch):
            F.cross_entropy(model(x), y).backward()
            compare(x, y)
        log(epoch)
        x, y = batch(seed=7)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def two_optimizers(model: nn.Module, log: Log, compare: Compare) -> None:
    body = [value for name, value in model.named_parameters() if not name.startswith("head")]
    head = [value for name, value in model.named_parameters() if name.startswith("head")]
    parts = torch.optim.AdamW(body, lr=0.01), torch.optim.SGD(head, lr=0.1)
    for epoch in range(EPOCHS):
        for x, y in batches(epoch):
            F.cross_entropy(model(x), y).backward()
            compare(x, y)
            for part in parts:
                part.step()
                part.zero_grad()
        log(epoch)


def freezing(model: nn.Module, log: Log, compare: Compare) -> None:
    """The head is frozen from the start, the embedding after an epoch, and a BatchNorm stays in eval mode."""
    model.get_submodule("blocks.0.1").eval()
    model.get_submodule("head").requires_grad_(False)
    optimizer = sgd(model)
    for epoch in range(EPOCHS):
        stepped(model, optimizer, epoch, compare)
        log(epoch)
        model.get_submodule("embed").requires_grad_(False)


def autocast(model: nn.Module, log: Log, compare: Compare) -> None:
    """Steps, comparisons and rows are inside autocast."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain(model, log, compare)


def scaled(model: nn.Module, log: Log, compare: Compare) -> None:
    """Autocast with a scaler of the loss, which is AMP as its manual shows it."""
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu")
    for epoch in range(EPOCHS):
        for x, y in batches(epoch):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            compare(x, y)
            scaler.step(optimizer)
            scaler.update()
        log(epoch)


def evaluating(model: nn.Module, log: Log, compare: Compare) -> None:
    """Rows are written in eval mode without gradients, as a validation loop does."""
    optimizer = sgd(model)
    for epoch in range(EPOCHS):
        model.train()
        stepped(model, optimizer, epoch, lambda x, y: None)
        model.eval()
        with torch.inference_mode():
            log(epoch)


LOOPS: dict[str, Callable[[nn.Module, Log, Compare], None]] = {
    "plain": plain,
    "noisy": noisy,
    "accumulating": accumulating,
    "two optimizers": two_optimizers,
    "freezing": freezing,
    "autocast": autocast,
    "scaled": scaled,
    "evaluating": evaluating,
}
