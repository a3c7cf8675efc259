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
        "teacher-linear": "faudit.data.regression:teacher_linear",
        "teacher-tanh": "faudit.data.regression:teacher_tanh",
    },
)
# These need no files: the first comes with faudit, the others are made when they are loaded.
SHIPPED = ("digits", "teacher", "teacher-linear", "teacher-tanh")
