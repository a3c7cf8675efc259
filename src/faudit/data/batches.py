"""Minibatches: the order and the augmentation of a whole epoch are drawn at once, from the run's own generators.

The order, crops and flips of an epoch come from the ``data`` generator. Random targets come from ``targets``. Both
generators are saved in the checkpoint, so a resumed run sees the same batches as an uninterrupted one.

On a GPU the samples are moved once, as bytes, and an epoch moves its random numbers once. Data that does not fit stays
on the CPU and is moved in chunks from pinned memory.
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
from faudit.tensors import sent

ROOM = 0.5  # share of a GPU's free memory that the data may take; weights, states and gradients need the rest
CHUNK = 1 << 21  # bytes of samples augmented at once: as many batches as stay in the processor's cache


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
    def home(self) -> torch.device:
        """Where the training samples are: on the device of the net, or on the CPU if they do not fit there."""
        _, _, height, width = self.dataset.train_x.shape
        border = 2 * self.crop
        size = self.dataset.train_x.nbytes * (height + border) * (width + border) // (height * width)
        return self.device if has_room(self.device, size) else torch.device("cpu")

    @cached_property
    def images(self) -> Tensor:
        """The training samples, moved once, and with a black border once if they are cropped."""
        samples = self.dataset.train_x.to(self.home)
        return F.pad(samples, (self.crop,) * 4) if self.crop else samples

    @property
    def crop(self) -> int:
        """The width of the border for random crops; 0 without augmentation."""
        return self.dataset.crop if self.augment else 0

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
        shifts = torch.randint(2 * self.crop + 1, (2, len(order)), generator=draw) if self.crop else None
        flips = torch.rand(len(order), generator=draw) < 0.5 if self.augment and data.flip else None
        return self._cut(order, labels, shifts, flips)

    def _cut(
        self, order: Tensor, labels: Tensor, shifts: Tensor | None, flips: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        size = self.batch_size * self.dataset.train_x[0].nbytes
        chunk = self.batch_size * max(1, CHUNK // size)
        order, labels = sent(order, self.home), sent(labels, self.device)
        shifts = None if shifts is None else sent(shifts, self.home)
        flips = None if flips is None else sent(flips, self.home)
        for start in range(0, len(order), chunk):
            span = slice(start, start + chunk)
            if shifts is None:
                x = self.images.index_select(0, order[span])  # copies whole samples; x[order] copies elements
            else:
                x = crops(self.images, order[span], rows=shifts[0, span], columns=shifts[1, span], crop=self.crop)
            if flips is not None:
                x = mirrored(x, flips[span])
            if self.home != self.device:
                x = sent(x, self.device)
            for batch, y in zip(
                torch.split(x, self.batch_size), torch.split(labels[span], self.batch_size), strict=True
            ):
                yield self.dataset.normalise(batch, self.dtype), y


def has_room(device: torch.device, size: int) -> bool:
    """Whether a device can hold this many bytes of data beside what training needs."""
    return device.type != "cuda" or size <= ROOM * torch.cuda.mem_get_info(device)[0]


def crops(padded: Tensor, chosen: Tensor, *, rows: Tensor, columns: Tensor, crop: int) -> Tensor:
    """The chosen samples, each cropped from its padded image at its own (row, column)."""
    height, width = (size - 2 * crop for size in padded.shape[2:])
    sample, channel, row, column = padded.stride()
    last = (padded.shape[1] - 1) * channel + (height - 1) * row + (width - 1) * column  # of a window, from its first
    windows = padded.as_strided((padded.numel() - last, padded.shape[1], height, width), (1, channel, row, column))
    return windows.index_select(0, chosen * sample + rows * row + columns * column)


def mirrored(x: Tensor, flips: Tensor) -> Tensor:
    """The samples, those of ``flips`` mirrored left to right. All are mirrored and then half of each chosen.

    That takes a third of the time of writing into the samples that are flipped.
    """
    both = torch.cat([x, x.flip(-1)])
    return both.index_select(0, torch.arange(len(x), device=x.device) + len(x) * flips)
