"""A plan runs the experiments of a recipe: as the recipe says, or on other data, for other lengths and seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.figures.plan import Recipe

RECIPE = Recipe(
    {
        "long": RunConfig(data="cifar10", epochs=9),
        "short": RunConfig(data="cifar10", epochs=3, probe_epochs=(1,)),
        "other": RunConfig(data="teacher", net="student", epochs=9),
    },
    data="cifar10",
    seeds=(1, 2),
    sizes={"digits": {"resmlp": {"width": 8}}},
)


def test_the_full_plan_is_the_recipe_with_its_seeds() -> None:
    plan = RECIPE.plan()
    assert plan.is_full and plan.config("long") == RunConfig(data="cifar10", epochs=9, seed=1)
    assert plan.config("short", 2) == RECIPE.experiments["short"].with_(seed=2)
    assert plan.to_json() == {"data": "cifar10", "epochs": None, "seeds": [1, 2]}


def test_an_experiment_may_have_some_of_the_seeds_unless_others_are_asked() -> None:
    recipe = replace(RECIPE, own_seeds={"short": (2,)})
    plan = recipe.plan()
    assert plan.seeds == (1, 2) and plan.seeds_of("long") == (1, 2) and plan.seeds_of("short") == (2,)
    assert plan.config("short").seed == 2 and plan.config("long").seed == 1
    assert recipe.plan(seeds=(7, 8)).seeds_of("short") == recipe.plan(seeds=(7, 8)).seeds == (7, 8)


def test_a_rehearsal_changes_the_papers_data_with_its_sizes_and_leaves_other_data_alone() -> None:
    plan = RECIPE.plan("digits", epochs=2, seeds=(7,))
    assert not plan.is_full and not RECIPE.plan(epochs=9).is_full and RECIPE.plan(seeds=(7,)).is_full
    assert plan.config("long") == RunConfig(data="digits", epochs=2, seed=7, width=8)
    assert plan.config("other") == RunConfig(data="teacher", net="student", epochs=2, seed=7)


def test_a_twin_differs_in_its_length_alone() -> None:
    assert RECIPE.has_longer_twin("short") and not RECIPE.has_longer_twin("long")
    assert not RECIPE.has_longer_twin("other")


def test_an_unknown_experiment_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown experiment 'lnog', did you mean 'long'\?"):
        RECIPE.plan().config("lnog")
