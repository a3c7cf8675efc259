"""The names and run ids of the published runs equal a committed list."""

from __future__ import annotations

from pathlib import Path

from faudit.papers.faeval import PAPER

PLANS = {"full": PAPER.plan(), "rehearsal": PAPER.plan("digits", epochs=2, seeds=(42,))}


def test_the_names_and_run_ids_are_the_committed_ones() -> None:
    committed = (Path(__file__).parent / "run_ids.txt").read_text().splitlines()
    assert committed == [
        f"{name}\t{experiment}\t{seed}\t{plan.config(experiment, seed).run_id}"
        for name, plan in PLANS.items()
        for experiment in plan.recipe.experiments
        for seed in plan.seeds
    ]
    assert len({line.split("\t")[3] for line in committed if line.startswith("full")}) == 63


def test_what_is_known_of_the_experiments_beyond_their_settings() -> None:
    recipe = PAPER.recipe()
    assert recipe.seeds == (42, 123, 456) and recipe.data == "cifar10"
    assert set(recipe.shortened) == {f"{net} {rule}" for net in ("vit", "noln") for rule in ("bp", "fa", "dfa")}
    twins = [name for name in recipe.experiments if recipe.has_longer_twin(name)]
    assert twins == ["matched bp", "matched dfa", "matched frozen-dfa"]
