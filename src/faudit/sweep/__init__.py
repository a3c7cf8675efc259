"""Sweeps: read a study file, find the missing runs, train them with an engine, and show progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from faudit.papers import PAPERS
from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.sweep.engine import Starter


class Studies(Registry[Path]):
    """The study files of the package. The first line of each is a comment that describes it."""

    def __getitem__(self, name: str) -> Path:
        return Path(__file__).parents[1] / self._target(name)

    def summary(self, name: str) -> str:
        with self[name].open(encoding="utf-8") as file:
            return file.readline().lstrip("# ").strip()


STUDIES = Studies(
    "study",
    {
        **{name: f"papers/{name.replace('-', '_')}/runs.toml" for name in PAPERS},
        "atlas": "sweep/studies/atlas.toml",
        "floor": "sweep/studies/floor.toml",
        "growth-credit": "sweep/studies/growth-credit.toml",
        "growth-decay": "sweep/studies/growth-decay.toml",
        "growth-optimizer": "sweep/studies/growth-optimizer.toml",
        "growth-rate": "sweep/studies/growth-rate.toml",
        "penalties": "sweep/studies/penalties.toml",
        "precision": "sweep/studies/precision.toml",
        "rules": "sweep/studies/rules.toml",
    },
)

ENGINES: Registry[Starter] = Registry(
    "engine",
    {
        "local": "faudit.sweep.local:starter",
        "ray": "faudit.sweep.ray:starter",
        "slurm": "faudit.sweep.slurm:starter",
    },
)
