"""A made-up paper on the digits, with one claim of each kind, and runs with which every claim is reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.figures.figure import at
from faudit.figures.plan import Plan, Recipe
from faudit.papers.claim import Between, Claim, Order, Part, at_epoch, dip, full_accuracy, full_error, last
from faudit.papers.paper import Paper
from faudit.store.rows import to_line
from tests.support import fabricate

RECIPE = Recipe({rule: RunConfig(rule=rule, epochs=4) for rule in ("bp", "fa", "dfa")}, data="digits", seeds=(1, 2))
ERROR = last(full_error)
CLAIMS = (
    Claim("level", ".90", (Part("BP", ("bp",), at_epoch(2, full_accuracy), "accuracy", 0.90, within=0.01),)),
    Claim("order", "10 < 20 < 30", (Order("error", ("bp", "fa", "dfa"), ERROR, "error", (10, 20, 30)),)),
    Claim("gap", "20", (Between("DFA − BP", "dfa", ERROR, "error", 15, 25, minus="bp", published=20),)),
    Claim("dip", "epoch 1–2", (Between("smallest", "fa", dip(at("gamma", 0)), "epoch", 1, 2),)),
)  # fmt: skip
PAPER = Paper("made-up", "A Title", "a reference", "its log", 1.0, lambda: RECIPE, CLAIMS)


def put(runs: Path, rule: str, accuracy: float, *, seed: int = 1, plan: Plan | None = None, **entries: Any) -> None:
    """A run with this accuracy on the full test set at every epoch; a list has one value per epoch."""
    run = fabricate.write((plan or RECIPE.plan()).config(rule, seed), runs)
    rows = run.rows()
    for place, row in enumerate(rows):
        row.update(test_acc=None, acc_eval=accuracy, eval_samples=360, test_samples=360)
        row.update({name: values[place] for name, values in entries.items()})
    run.rows_file.write_text("".join(map(to_line, rows)))


def everything(runs: Path, changed: dict[str, float] | None = None, *, seeds: tuple[int, ...] = (1, 2)) -> None:
    """Runs with which every claim is reproduced, except for the changed accuracies."""
    for rule, accuracy in {"bp": 0.9, "fa": 0.8, "dfa": 0.7, **(changed or {})}.items():
        for seed in seeds:
            put(runs, rule, accuracy, seed=seed, gamma=[[g] * 4 for g in (0.5, 0.3, 0.1, 0.2, 0.4)])
