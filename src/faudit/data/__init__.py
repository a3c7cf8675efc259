"""The registry of datasets. Each entry is a loader ``(data_dir) -> Dataset``; each file format has one module.

A loader of your own is named ``package.module:function``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.errors import ConfigError
from faudit.registry import Registry, foreign

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset

Loader = Callable[["Path | None"], "Dataset"]


class Datasets(Registry[Loader]):
    """The loaders of a table, and loaders of the user's. What one of those returns is checked."""

    def must_be_member(self, found: Any, what: str) -> None:
        if not callable(found) or isinstance(found, type):
            raise ConfigError(f"{what} is no dataset: expected a function (data_dir) → Dataset, got {found!r:.100}")

    def __getitem__(self, name: str) -> Loader:
        found = super().__getitem__(name)
        return partial(load_own, name, found) if self.is_own(name) else found


def load_own(name: str, loader: Loader, data_dir: Path | None) -> Dataset:
    """Call the loader of an own dataset. Its errors become errors of one line."""
    from faudit.data.dataset import Dataset

    with foreign(f"dataset {name} cannot be loaded"):
        found: Any = loader(data_dir)
    if not isinstance(found, Dataset):
        raise ConfigError(f"dataset {name}: expected a function that returns a Dataset, got {type(found).__name__}")
    return found


DATASETS = Datasets(
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
    contract="faudit.data.dataset:Dataset",
)
# These need no files: the first comes with faudit, the others are made when they are loaded.
SHIPPED = ("digits", "teacher", "teacher-linear", "teacher-tanh")
