"""The digits as plain tensors, for training loops that are not faudit's."""

from __future__ import annotations

from torch import Tensor

from faudit.data import DATASETS


def digits(samples: int = 1437) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images [n, 1, 8, 8] and labels, then those of the test set."""
    data = DATASETS["digits"](None)
    return data.normalise(data.train_x)[:samples], data.train_y[:samples], data.normalise(data.test_x), data.test_y
