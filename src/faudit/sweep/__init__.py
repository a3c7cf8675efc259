"""Many runs at once: which are missing, who makes them, and how far they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.sweep.engine import Starter


class Studies(Registry[Path]):
    """Study files inside the package; what one is about is its first line, a comment."""

    def __getitem__(self, name: str) -> Path:
        return Path(__file__).parents[1] / self._target(name)

    def summary(self, name: str) -> str:
        with self[name].open(encoding="utf-8") as file:
            return file.readline().lstrip("# ").strip()


STUDIES = Studies(
    "study",
    {
        "faeval": "papers/faeval/runs.toml",
        "penalties": "sweep/studies/penalties.toml",
        "rules": "sweep/studies/rules.toml",
    },
)

ENGINES: Registry[Starter] = Registry(
    "engine",
    {
        "local": "faudit.sweep.local:starter",
        "ray": "faudit.sweep.ray:starter",
    },
)
