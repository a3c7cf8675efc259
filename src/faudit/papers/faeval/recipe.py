"""The experiments of the paper: those of ``runs.toml``, with smaller sizes for the digits and shorter runs allowed."""

from __future__ import annotations

from functools import cache

from faudit.figures.plan import Recipe
from faudit.sweep import STUDIES
from faudit.sweep.study import read_study

DATA = "cifar10"
# The digits are small. With these sizes they show the same effects in seconds.
SIZES = {
    "digits": {"resmlp": {"batch_size": 32, "width": 128}, "vit": {"batch_size": 32, "patch": 2}},
}
SHORTENED = ("vit", "noln")  # they are slow to train, and no claim needs their last epoch


@cache
def recipe() -> Recipe:
    """The recipe. The file is read at the first call."""
    experiments = read_study(STUDIES["faeval"]).experiments
    return Recipe(
        {name: runs[0] for name, runs in experiments.items()},
        data=DATA,
        seeds=tuple(dict.fromkeys(run.seed for runs in experiments.values() for run in runs)),
        sizes=SIZES,
        shortened=tuple(name for name in experiments if name.split()[0] in SHORTENED),
    )
