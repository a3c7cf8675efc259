"""Gaussian blobs in eight dimensions, four classes, made on the spot."""

from __future__ import annotations

from pathlib import Path

import torch

from faudit import Dataset

TRAIN, TEST = 400, 100


def blobs(data_dir: Path | None = None) -> Dataset:
    """Four Gaussian blobs in eight dimensions, made when loaded; ``data_dir`` is not used."""
    draw = torch.Generator().manual_seed(0)
    centres = 1.5 * torch.randn(4, 8, generator=draw)
    y = torch.arange(TRAIN + TEST) % 4
    x = (centres[y] + torch.randn(TRAIN + TEST, 8, generator=draw)).view(-1, 1, 1, 8)
    return Dataset("blobs", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], 4, mean=(0.0,), std=(1.8,), scale=1.0)
