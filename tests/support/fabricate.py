"""Finished runs made up on the spot, for tests of what reads runs: no training, any number of them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from pathlib import Path

from faudit.config import RunConfig
from faudit.figures.plan import Plan
from faudit.store.rows import Row, to_line
from faudit.store.run import FORMAT, Run

L = 4


def row(config: RunConfig, epoch: int, noise: random.Random) -> Row:
    """A row whose stream grows fast under DFA, slower under a penalty, and hardly under BP."""
    penalty = config.changed.get("penalty", 0.0)
    pace = {"bp": 0.6, "fa": 1.5, "dfa": 4.0}.get(config.rule, 0.3) / (1.0 + 60.0 * penalty)
    size = 5.0 * (1.0 + epoch) ** pace * math.exp(noise.gauss(0.0, 0.1))
    accuracy = {"bp": 0.6, "fa": 0.4, "dfa": 0.3}.get(config.rule, 0.35) + 4.0 * penalty * (penalty < 0.05)
    gamma = [0.4, 0.1, 0.1, 0.1] if config.rule != "bp" else [1.0] * L
    entries = Row(
        {
            "epoch": epoch,
            "hidden_norms": [size * (1.0 + tap * pace) for tap in range(L + 1)],
            "grad_norms": [1.0 / size] * (L + 1),
            "grad_norms_frobenius": [40.0 / size] * (L + 1),
            "gamma": [value + noise.gauss(0.0, 0.01) * (config.rule != "bp") for value in gamma],
            "gamma_undefined": [0] * L,
            "acc_eval": 0.1 + (accuracy - 0.1) * (1.0 - math.exp(-epoch / 5.0)) + noise.gauss(0.0, 0.004),
            "loss_eval": 2.3,
            "eval_samples": 1024,
            "test_samples": 10_000,
            "classes": 10,
            "test_acc": accuracy + noise.gauss(0.0, 0.004) if epoch == config.epochs else None,
            "train_loss": None if epoch == 0 else 2.0,
            "seconds": 1.0,
            "probe_seconds": 0.1,
        }
    )
    if config.probe_epochs and (epoch in config.probe_epochs or epoch == config.epochs):
        entries |= {name: [0.5 * value for value in entries["gamma"]] for name in ("rho", "rho_study")}
        for name in ("rho", "gamma"):
            entries |= {f"{name}_null_mean": [0.0] * L, f"{name}_null_std": [0.03] * L, f"{name}_null_place": [0.9] * L}
    return entries


def write(config: RunConfig, runs: Path, *, until: int | None = None) -> Run:
    """A finished run, or with ``until`` one that is not finished."""
    run = Run(runs / config.run_id)
    run.path.mkdir(parents=True)
    noise = random.Random(repr(config))
    last = config.epochs if until is None else until
    document = {"format": FORMAT, "run_id": config.run_id, "config": config.to_json()}
    (run.path / "config.json").write_text(json.dumps(document))
    (run.path / "env.json").write_text("{}")
    run.rows_file.write_text("".join(to_line(row(config, epoch, noise)) for epoch in range(last + 1)))
    if until is None:
        (run.path / "done.json").write_text(json.dumps({"epochs": last}))
    return run


def all_runs(plan: Plan, runs: Path, experiments: Iterable[str] | None = None) -> None:
    """Every run of the experiments, or of all that the plan has; some share a run."""
    names = list(plan.recipe.experiments if experiments is None else experiments)
    configs = [plan.config(name, seed) for name in names for seed in plan.seeds]
    for config in {config.run_id: config for config in configs}.values():
        write(config, runs)
