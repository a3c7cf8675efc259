"""A healthy run as checks see it, and the same with some entries changed."""

from __future__ import annotations

from typing import Any

from faudit import RunConfig
from faudit.audit.audit import case_of
from faudit.audit.checks.check import Case, Control
from faudit.store.rows import Row

HEALTHY: dict[str, Any] = {
    "epoch": 9,
    "hidden_norms": [1.0, 2.0, 3.0, 4.0, 5.0],
    "grad_norms": [1e-2] * 5,
    "precision_agree": [1.0] * 5,
    "precision_fitted": 0,
    "eval_samples": 1000,
    "stability": 0.1,
    "gamma": [0.4, 0.2, 0.2, 0.2],
    "gamma_null_mean": [0.0] * 4,
    "gamma_null_std": [0.02] * 4,
    "gamma_null_draws": [[0.02 * (-1) ** draw for draw in range(20)]] * 4,
    "gamma_bp": [1.0] * 4,
    "gamma_chance": [0.01] * 4,
    "rho_valid": [True] * 4,
    "rho_bp": [0.999] * 4,
    "rho_random": [0.0] * 4,
    "block_turn": [0.3] * 4,
    "reference_rank": [5.0] * 5,
    "gamma_others": [0.05] * 4,
    "gamma_others_std": [0.005] * 4,
    "swap_cosines": [0.1] * 5 + [1.0],
    "test_acc": 0.9,
}


def case(rule: str = "dfa", frozen: float | None = 0.8, samples: int = 1000, **entries: Any) -> Case:
    """A finished run whose last row differs from a healthy one by these entries."""
    rows = [Row(HEALTHY, epoch=0), Row(HEALTHY, **entries)]
    control = None if frozen is None else Control("frozen", frozen)
    return case_of(RunConfig(rule=rule), rows, samples=samples, classes=10, control=control)
