"""Train on your own dataset: a function returns a Dataset, and faudit's training loop uses it.

The dataset is two spirals. This example prepares an experiment with the dataset and trains it epoch by epoch. If the
function took ``data_dir``, ``faudit train --data module:function`` would train on it too (docs/own.md).
"""

import math

import torch

from faudit import Dataset, RunConfig
from faudit.experiment import prepare
from faudit.store.rows import growth
from faudit.train import measure, one_epoch


def spirals(samples: int = 600, seed: int = 0) -> Dataset:
    """Points on two spirals, as float32 samples of shape [1, 1, 2] in two classes."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % 2
    radius = torch.rand(samples, generator=draw).sqrt()
    angle = 3 * math.pi * radius + math.pi * y
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    x = (x + 0.02 * torch.randn(x.shape, generator=draw)).reshape(samples, 1, 1, 2)
    split = samples * 4 // 5
    return Dataset("spirals", x[:split], y[:split], x[split:], y[split:], 2, mean=(0.0,), std=(0.5,), scale=1.0)


if __name__ == "__main__":
    data = spirals()
    for rule in ("bp", "dfa"):
        experiment = prepare(RunConfig(rule=rule, epochs=25, depth=3, width=32, batch_size=32, lr=3e-3), data)
        for epoch in range(1, experiment.config.epochs + 1):
            loss = one_epoch(experiment, epoch)
        row = measure(experiment, epoch, train_loss=loss, seconds=0.0)
        print(f"{rule:>4}: test accuracy {row['test_acc']:.3f}, growth {growth(row['hidden_norms']):.3g}×")
