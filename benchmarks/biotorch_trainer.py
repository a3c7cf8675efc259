"""The baseline of ``faudit bench rules``: BioTorch's rules on the same networks, as its readme trains them.

BioTorch 0.0.16 imports when it is installed without its dependencies: ``pip install --no-deps biotorch==0.0.16``.
Batches and the fused AdamW are those of faudit, so only the rules differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MODES = {"fa-weights": "fa", "dfa-layers": "dfa", "sign-symmetry": "usf"}  # faudit's rule → BioTorch's name of it


def mlp(inputs: int, sizes: tuple[int, ...], classes: int) -> nn.Module:
    """The same perceptron as faudit's ``mlp`` with ReLU."""
    layers: list[nn.Module] = [nn.Flatten()]
    for wide in sizes:
        layers += [nn.Linear(inputs, wide), nn.ReLU()]
        inputs = wide
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


def lenet(classes: int) -> nn.Module:
    """The same network as faudit's ``lenet``, for 28×28 images of one channel."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def trainer(module: nn.Module, mode: str, classes: int) -> Callable[[Iterable[tuple[Tensor, Tensor]]], None]:
    """A function that trains a converted copy of a module on batches."""
    from biotorch.module.biomodule import BioModule  # optional

    model: Any = BioModule(module, mode=mode, output_dim=classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def train(batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            logits = model(x, targets=y, loss_function=F.cross_entropy)
            F.cross_entropy(logits, y).backward()
            optimizer.step()

    return train
