"""The runs that a figure or a claim needs: a recipe of named experiments, and a plan to run them.

An experiment is a configuration without a seed. A recipe holds the experiments of one paper as the paper ran them. A
plan adds the dataset, the number of epochs and the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faudit.config import RunConfig, identity
from faudit.errors import ConfigError
from faudit.registry import unknown

Sizes = Mapping[str, Mapping[str, Mapping[str, Any]]]  # data → net → settings


@dataclass(frozen=True)
class Recipe:
    """A paper's experiments by name. The seeds of these configurations are ignored; a plan sets them."""

    experiments: Mapping[str, RunConfig]
    data: str  # the paper's dataset; a plan never moves an experiment that uses other data
    seeds: tuple[int, ...]  # of all experiments together
    own_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of experiments that have only some of them
    sizes: Sizes = field(default_factory=dict)  # settings that replace the paper's on smaller data
    shortened: tuple[str, ...] = ()  # experiments for which shorter runs may be used

    def plan(self, data: str | None = None, *, epochs: int | None = None, seeds: tuple[int, ...] | None = None) -> Plan:
        """The recipe as the paper ran it, or a rehearsal of it on other data or for fewer epochs."""
        return Plan(self, data or self.data, epochs, seeds)

    def experiment(self, name: str) -> RunConfig:
        if name not in self.experiments:
            raise ConfigError(unknown("experiment", name, self.experiments))
        return self.experiments[name]

    def seeds_of(self, name: str) -> tuple[int, ...]:
        """The seeds of an experiment."""
        return self.own_seeds.get(name, self.seeds)

    def has_longer_twin(self, name: str) -> bool:
        """Whether another experiment differs from this one only in training longer."""
        config = self.experiment(name)
        return any(
            identity(other) == identity(config) and other.epochs > config.epochs for other in self.experiments.values()
        )


@dataclass(frozen=True)
class Plan:
    """The data, the epochs and the seeds with which a recipe is run. Epochs and seeds are the recipe's if None."""

    recipe: Recipe
    data: str
    epochs: int | None
    asked: tuple[int, ...] | None  # seeds of every experiment

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of all experiments together."""
        return self.asked or self.recipe.seeds

    def seeds_of(self, experiment: str) -> tuple[int, ...]:
        """The seeds of an experiment."""
        return self.asked or self.recipe.seeds_of(experiment)

    def config(self, experiment: str, seed: int | None = None) -> RunConfig:
        """The run of an experiment with a seed (default: its first)."""
        config = self.recipe.experiment(experiment)
        data = self.data if config.data == self.recipe.data else config.data
        return config.with_(
            data=data,
            epochs=config.epochs if self.epochs is None else self.epochs,
            seed=self.seeds_of(experiment)[0] if seed is None else seed,
            **self.recipe.sizes.get(data, {}).get(config.net, {}),
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as it is stored in results."""
        return {"data": self.data, "epochs": self.epochs, "seeds": list(self.seeds)}

    @property
    def is_full(self) -> bool:
        """Whether this plan has the paper's data and epochs. Otherwise it is a rehearsal."""
        return self.data == self.recipe.data and self.epochs is None
