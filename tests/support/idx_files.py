"""Tiny IDX files under the names of MNIST, and the place of the real ones."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

from faudit.data.dataset import Dataset
from tests.support.paths import ROOT

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
REAL_MNIST = ROOT.parent / "shared" / "data" / "mnist"
needs_real_mnist = pytest.mark.skipif(not REAL_MNIST.is_dir(), reason="the real MNIST is not beside this checkout")


def idx(array: Tensor) -> bytes:
    """An IDX file, written by the format's definition."""
    sizes = b"".join(struct.pack(">I", size) for size in array.shape)
    return b"\x00\x00\x08" + bytes([array.ndim]) + sizes + bytes(array.flatten().tolist())


def arrays(seed: int = 0) -> list[Tensor]:
    """Six training and three test images with their labels, in the order of NAMES."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((6, 28, 28), (6,), (3, 28, 28), (3,))
    tops = (256, 10, 256, 10)
    return [
        torch.randint(0, top, size, dtype=torch.uint8, generator=generator)
        for size, top in zip(sizes, tops, strict=True)
    ]


def write(folder: Path, *, seed: int = 0, suffix: str = ".gz", zipped: bool = True) -> Path:
    """The four files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(NAMES, arrays(seed), strict=True):
        raw = idx(array)
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(raw) if zipped else raw)
    return folder


def assert_holds(data: Dataset, seed: int = 0) -> None:
    """The dataset is exactly the four arrays."""
    train_x, train_y, test_x, test_y = arrays(seed)
    assert torch.equal(data.train_x.squeeze(1), train_x)
    assert torch.equal(data.test_x.squeeze(1), test_x)
    assert torch.equal(data.train_y, train_y.long())
    assert torch.equal(data.test_y, test_y.long())
