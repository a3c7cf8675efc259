"""Regression tasks: Gaussian inputs with the outputs of a fixed random network as targets, by Lillicrap et al. (2016).

x ~ N(0, I) in 30 dimensions; 10 outputs; 30,000 samples for training, 4,000 for test.

    teacher-linear   y = T x,                                         T ~ U(±1)
    teacher-tanh     y = W_2 tanh(W_1 tanh(W_0 x)), sizes 30-20-10-10, W ~ U(±1), without biases

The data is made when it is loaded. It needs no files and does not depend on the run's seed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from faudit.data.dataset import Dataset

SEED = 20_161_108
INPUTS, HIDDEN, OUTPUTS = 30, (20, 10), 10
TRAIN, TEST = 30_000, 4_000


def teacher_linear(data_dir: Path | None = None) -> Dataset:
    """Gaussian vectors with targets from a random linear map, made when loaded."""
    generator = torch.Generator().manual_seed(SEED)
    weight = uniform(OUTPUTS, INPUTS, generator=generator)
    return made("teacher-linear", lambda x: x @ weight.T, generator)


def teacher_tanh(data_dir: Path | None = None) -> Dataset:
    """Gaussian vectors with targets from a random network of two tanh layers, made when loaded."""
    generator = torch.Generator().manual_seed(SEED)
    sizes = (INPUTS, *HIDDEN, OUTPUTS)
    weights = [uniform(rows, columns, generator=generator) for columns, rows in pairwise(sizes)]

    def network(x: Tensor) -> Tensor:
        for weight in weights[:-1]:
            x = torch.tanh(x @ weight.T)
        return x @ weights[-1].T

    return made("teacher-tanh", network, generator)


def uniform(*shape: int, generator: torch.Generator) -> Tensor:
    """A float64 tensor with entries from U(±1)."""
    return 2.0 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1.0


def made(name: str, teacher: Callable[[Tensor], Tensor], generator: torch.Generator) -> Dataset:
    """The dataset of a teacher.

    Inputs and targets are computed in float64 and rounded: the rounding of different processors differs by far less.
    """
    x = rounded(torch.randn(TRAIN + TEST, INPUTS, generator=generator, dtype=torch.float64), bits=10)
    y = rounded(teacher(x), bits=20).to(torch.float32)
    x = x.to(torch.float32).view(-1, 1, 1, INPUTS)
    return Dataset(name, x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], 0, (0.0,), (1.0,), scale=1.0)


def rounded(values: Tensor, *, bits: int) -> Tensor:
    """The values as multiples of 2 to the power of −bits."""
    scale = float(2**bits)
    return (values * scale).round() / scale
