"""The registry of datasets. Each entry is a loader ``(data_dir) -> Dataset``; each file format has one module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset

DATASETS: Registry[Callable[[Path | None], Dataset]] = Registry(
    "dataset",
    {
        "digits": "faudit.data.digits:digits",
        "cifar10": "faudit.data.cifar:cifar10",
        "cifar100": "faudit.data.cifar:cifar100",
        "mnist": "faudit.data.idx:mnist",
        "fashion-mnist": "faudit.data.idx:fashion_mnist",
        "teacher": "faudit.data.teacher:teacher",
    },
)
SHIPPED = ("digits", "teacher")  # these need no files: one comes with faudit, the other is made on the spot
