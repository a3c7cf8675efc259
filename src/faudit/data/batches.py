"""Minibatches: the order and the augmentation of a whole epoch are drawn at once, from the run's own generators.

The order, crops and flips of an epoch come from the ``data`` generator. Random targets come from ``targets``. Both
generators are saved in the checkpoint, so a resumed run sees the same batches as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.errors import DataError

CHUNK = 16  # batches augmented at once: a whole epoch would double the memory of the data


@dataclass(frozen=True)
class Batches:
    """Cuts a training set into normalised batches, epoch by epoch. The last one can be smaller, or is left out."""

    dataset: Dataset
    batch_size: int
    augment: bool
    random_targets: bool
    dtype: torch.dtype
    device: torch.device
    shuffle: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.batch_size > len(self.dataset.train_x):
            raise DataError(
                f"batch-size {self.batch_size} is larger than the data: {self.dataset.name} has "
                f"{len(self.dataset.train_x)} training samples. Use a smaller --batch-size."
            )

    @cached_property
    def padded(self) -> Tensor:
        """The training set with a black border, made once: padding every chunk would cost as much as cropping it."""
        return F.pad(self.dataset.train_x, (self.dataset.crop,) * 4)

    @property
    def samples(self) -> int:
        """The number of samples in an epoch."""
        n = len(self.dataset.train_x)
        return n - n % self.batch_size if self.drop_last else n

    def epoch(self, generators: Mapping[str, torch.Generator]) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass over the training set. All its random numbers are drawn before the first batch."""
        data, draw = self.dataset, generators["data"]
        n = len(data.train_x)
        order = torch.randperm(n, generator=draw) if self.shuffle else torch.arange(n)
        order = order[: self.samples]
        labels = data.train_y[order]
        if self.random_targets:
            labels = torch.randint(data.classes, (len(order),), generator=generators["targets"])
        crop = data.crop if self.augment else 0
        shifts = torch.randint(2 * crop + 1, (2, len(order)), generator=draw) if crop else None
        flips = torch.rand(len(order), generator=draw) < 0.5 if self.augment and data.flip else None
        return self._cut(order, labels, shifts, flips)

    def _cut(
        self, order: Tensor, labels: Tensor, shifts: Tensor | None, flips: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(order), CHUNK * self.batch_size):
            span = slice(start, start + CHUNK * self.batch_size)
            if shifts is None:
                x = self.dataset.train_x[order[span]]
            else:
                x = crops(
                    self.padded, order[span], rows=shifts[0, span], columns=shifts[1, span], crop=self.dataset.crop
                )
            if flips is not None:
                turned = flips[span].nonzero().squeeze(1)  # a mask would be searched at every use
                x[turned] = x[turned].flip(-1)
            for batch, y in zip(
                torch.split(x, self.batch_size), torch.split(labels[span], self.batch_size), strict=True
            ):
                yield self.dataset.normalise(batch.to(self.device), self.dtype), y.to(self.device)


def crops(padded: Tensor, chosen: Tensor, *, rows: Tensor, columns: Tensor, crop: int) -> Tensor:
    """The chosen samples, each cropped from its padded image at its own (row, column)."""
    height, width = (size - 2 * crop for size in padded.shape[2:])
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # [N, C, rows, columns, H, W], a view
    return windows[chosen, :, rows, columns]
