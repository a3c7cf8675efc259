"""The contract of a dataset: all samples in memory, and what is needed to normalise and augment them.

A sample belongs to one of several classes, or its target is a vector (``classes`` is 0).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from faudit.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """The training and test samples of one dataset.

    A net reads a sample as ``(x / scale − mean) / std``, per channel. ``crop`` is the width of the black border for a
    random crop, in pixels. ``flip`` says whether the recipe flips images horizontally at random.
    """

    name: str
    train_x: Tensor  # [N, C, H, W], uint8 for images
    train_y: Tensor  # int64 [N], or float32 [N, outputs] if the targets are vectors
    test_x: Tensor
    test_y: Tensor
    classes: int  # 0 if the targets are vectors
    mean: tuple[float, ...]  # per channel, of x / scale
    std: tuple[float, ...]
    scale: float = 255.0
    crop: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        for split, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if x.dtype not in (torch.uint8, torch.float32) or x.ndim != 4 or x.shape[1] != len(self.mean):
                raise DataError(
                    f"{self.name} {split} samples: expected uint8 or float32 [N, {len(self.mean)}, H, W], "
                    f"got {x.dtype} {list(x.shape)}"
                )
            if self.classes == 0:
                if len(y) == 0 or y.shape != (len(x), self.outputs) or y.dtype != torch.float32:
                    raise DataError(
                        f"{self.name} {split} targets: expected float32 [{len(x)}, {self.outputs}], "
                        f"got {y.dtype} {list(y.shape)}"
                    )
                continue
            if y.shape != (len(x),) or y.dtype != torch.int64:
                raise DataError(
                    f"{self.name} {split} labels: expected {len(x)} int64 labels, got {y.dtype} {list(y.shape)}"
                )
            if len(y) == 0 or int(y.min()) < 0 or int(y.max()) >= self.classes:
                raise DataError(f"{self.name} {split} labels: expected at least one, each in 0..{self.classes - 1}")

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample, (C, H, W)."""
        return tuple(self.train_x.shape[1:])

    @property
    def outputs(self) -> int:
        """The number of outputs of a net for this dataset: one for each class, or for each entry of a target."""
        return self.classes or self.train_y.shape[-1]

    def normalise(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The samples as the net reads them: ``(x / scale − mean) / std``."""
        return normalised(x, self.mean, self.std, scale=self.scale, dtype=dtype)

    def with_pixels(self, pixels: str) -> Dataset:
        """The dataset as the setting ``pixels`` asks: "standard", as it is, or "unit", read as ``x / scale``."""
        if pixels == "standard":
            return self
        return replace(self, mean=(0.0,) * len(self.mean), std=(1.0,) * len(self.std))

    def with_crop(self, crop: int) -> Dataset:
        """The dataset with another border for the random crop; with a negative one, itself."""
        return self if crop < 0 else replace(self, crop=crop)

    def reduced(self, size: int) -> Dataset:
        """The same dataset with fewer training samples, at even distances; with 0, or if it has no more, itself."""
        if size == 0 or size >= len(self.train_x):
            return self
        chosen = torch.arange(size) * len(self.train_x) // size
        return replace(self, train_x=self.train_x[chosen], train_y=self.train_y[chosen])

    def buffer(self, size: int) -> tuple[Tensor, Tensor]:
        """The fixed evaluation buffer: ``size`` test samples at even distances, or all if there are fewer.

        It does not depend on the seed. The first samples would be a biased choice: MNIST's first half is easier.
        """
        size = min(size, len(self.test_x))
        chosen = torch.arange(size) * len(self.test_x) // size
        return self.test_x[chosen], self.test_y[chosen]

    def about(self) -> dict[str, Any]:
        """What a net must know of the samples, for JSON: a run keeps it, so that its net can be built without data."""
        about = {"shape": list(self.sample_shape), "outputs": self.outputs}
        return {**about, "mean": list(self.mean), "std": list(self.std), "scale": self.scale}

    def fingerprint(self) -> str:
        """The SHA-256 of all samples and labels: it differs if a single pixel differs."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for part in (self.train_x, self.train_y, self.test_x, self.test_y):
            digest.update(repr((str(part.dtype), tuple(part.shape))).encode())
            digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()


def normalised(x: Tensor, mean: Sequence[float], std: Sequence[float], *, scale: float, dtype: torch.dtype) -> Tensor:
    """``(x / scale − mean) / std`` per channel, as a new tensor."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    shift, factor = constants(tuple(mean), tuple(std), scale, dtype, x.device)
    fresh = x.to(dtype, copy=True)  # a copy even if x has the dtype: the dataset's own samples must not change
    return fresh.sub_(shift.view(shape)).mul_(factor.view(shape))


@cache  # numbers of Python reach a GPU by a copy that waits, and every batch needs these
def constants(
    mean: tuple[float, ...], std: tuple[float, ...], scale: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """What is subtracted from each channel, and what it is then multiplied by."""
    shift = torch.tensor(mean, dtype=dtype, device=device).mul(scale)
    return shift, torch.tensor(std, dtype=dtype, device=device).mul(scale).reciprocal()
