"""The paper's files for tests: runs that could be exported, and files as the paper's authors wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.files import FILES
from faudit.store.rows import Row
from faudit.store.run import Run

SEED, L, N = 42, 4, 360  # the digits have 360 test samples, fewer than the 1,024 asked for
EVOLUTION = "snapshot_evolution_v2/snapshot_evolution_s42.json"
EXPERIMENTS = sorted({experiment for logs in FILES.values() for experiment in logs.values()})  # all that a file holds
DIGITS = PAPER.plan("digits", epochs=1, seeds=(SEED,))


def row(epoch: int, config: RunConfig, **changes: Any) -> Row:
    """What training logs, with numbers that tell taps, epochs and rules apart."""
    size = 3.0 + epoch + len(config.rule) / 7
    return Row(
        {
            "epoch": epoch,
            "hidden_norms": [size * (tap + 1) for tap in range(L + 1)],
            "grad_norms": [0.1 / size / (tap + 1) for tap in range(L + 1)],
            "grad_norms_frobenius": [2.3 / size / (tap + 1) for tap in range(L + 1)],
            "gamma": [0.25, 0.125, -0.5, 0.0],
            "gamma_undefined": [0] * L,
            "acc_eval": 0.3 + epoch / 100,
            "loss_eval": 2.0 - epoch / 10,
            "test_acc": None,
            "eval_samples": N,
            "train_loss": None,
            "seconds": 1.0,
            "probe_seconds": 0.1,
            **changes,
        }
    )


def fabricate(config: RunConfig, runs: Path, rows: Iterable[Row] | None = None) -> Run:
    """A run directory that training could have left."""
    run = Run(runs / config.run_id)
    with run.locked():
        run.begin(config, {"faudit": "0"})
        for entry in rows or [row(epoch, config) for epoch in range(config.epochs + 1)]:
            run.append(entry)
        run.finish({"epochs": config.epochs})
    return run


def read(path: Path) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} in {path}")

    return json.loads(path.read_text(), parse_constant=refuse)


def entry(epoch: int, *, vit: bool = False) -> dict[str, Any]:
    """An entry as the study wrote it."""
    hidden, gradients = (
        ("hidden_norms_cls", "bp_grad_per_sample_l2_med") if vit else ("hidden_norms", "bp_grad_norms_per_sample_med")
    )
    return {
        "epoch": epoch,
        hidden: [5.5, 5.6, 5.7, 5.8, 6.0 + epoch],
        gradients: [1e-4, 2e-4, 3e-4, 4e-4, 5e-4],
        "bp_grad_norms_F": [0.01, 0.02, 0.03, 0.04, 0],
        "gamma_dfa": 0.1,
        "acc_eval": 0.25,
        "loss_eval": 2.1,
    }


def penalty_entry(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "h_L_norm": 7.5 + epoch, "g_2_norm": 2.5e-5, "acc_eval": 0.4}


def original(epochs: int = 3) -> dict[str, Any]:
    """A ResMLP file of the study, which knows nothing of faudit."""
    return {
        "config": {"seed": SEED, "lr": 0.001, "epochs": epochs},
        "depth": L,
        "d_hidden": 256,
        "num_classes": 10,
        "bp_log": None,
        "dfa_log": [entry(epoch) for epoch in range(epochs + 1)],
    }


def put(document: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


# Files of the paper's authors, by their names.
ORIGINALS: dict[str, Callable[[], dict[str, Any]]] = {
    EVOLUTION: original,
    "snapshot_no_outln_v1/snapshot_noLN_s42.json": lambda: {**original(), "bp_log": [entry(0), entry(3)]},
    "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s42.json": lambda: {"fa_log": [entry(0), entry(1)]},
    "snapshot_vit_v1/snapshot_vit_s42.json": lambda: {
        "config": {},
        "bp_log": None,
        "dfa_log": [entry(0, vit=True), entry(1, vit=True)],
    },
    "snapshot_vit_v1/snapshot_fa_canonical_s42.json": lambda: {"fa_log": [entry(0, vit=True), entry(1, vit=True)]},
    "snapshot_synth_v1/snapshot_synth_a1.0_L4_s42.json": lambda: {**original(), "d_hidden": 128},
    "snapshot_synth_v1/snapshot_fa_canonical_s42.json": lambda: {"fa_log": [entry(0), entry(1)]},
    "dfa_residual_penalty/dfa_pen_lam0.001_s42.json": lambda: {"config": {}, "log": [penalty_entry(0)]},
    "dfa_residual_penalty/dfa_pen_lam0.01_s42.json": lambda: {
        "config": {"lam": 0.01, "seed": 42},
        "log": [penalty_entry(0), penalty_entry(5)],
    },
}
