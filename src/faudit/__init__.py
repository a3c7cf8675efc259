"""faudit: train with backprop and its alternatives, and measure whether the credit signal still means anything.

The names below are the public ones; they are imported when first used, so that ``import faudit`` alone needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faudit.analysis.compare import compare
    from faudit.analysis.runs import Runs, audit_run, runs
    from faudit.config import RunConfig
    from faudit.data import DATASETS
    from faudit.data.dataset import Dataset
    from faudit.errors import FauditError
    from faudit.figures.plot import plot, scatter
    from faudit.nets import NETS
    from faudit.nets.net import Net
    from faudit.probes import PROBES
    from faudit.probes.probe import Probe, Reading
    from faudit.rng import generators
    from faudit.rules import RULES
    from faudit.rules.local import LocalRule
    from faudit.rules.rule import Rule, Step
    from faudit.store.run import Run, runs_in
    from faudit.train import fit
    from faudit.watch.control import control
    from faudit.watch.loop import watch
    from faudit.watch.model import audit_model
    from faudit.watch.trained import load_model, rule_state

__version__ = "0.1.0"

__all__ = [
    "DATASETS",
    "NETS",
    "PROBES",
    "RULES",
    "Dataset",
    "FauditError",
    "LocalRule",
    "Net",
    "Probe",
    "Reading",
    "Rule",
    "Run",
    "RunConfig",
    "Runs",
    "Step",
    "audit_model",
    "audit_run",
    "compare",
    "control",
    "fit",
    "generators",
    "load_model",
    "plot",
    "rule_state",
    "runs",
    "runs_in",
    "scatter",
    "watch",
]

_HOMES = {
    "faudit.analysis.compare": ("compare",),
    "faudit.analysis.runs": ("Runs", "audit_run", "runs"),
    "faudit.watch.control": ("control",),
    "faudit.watch.loop": ("watch",),
    "faudit.watch.model": ("audit_model",),
    "faudit.watch.trained": ("load_model", "rule_state"),
    "faudit.config": ("RunConfig",),
    "faudit.data": ("DATASETS",),
    "faudit.data.dataset": ("Dataset",),
    "faudit.errors": ("FauditError",),
    "faudit.figures.plot": ("plot", "scatter"),
    "faudit.nets": ("NETS",),
    "faudit.nets.net": ("Net",),
    "faudit.probes": ("PROBES",),
    "faudit.probes.probe": ("Probe", "Reading"),
    "faudit.rng": ("generators",),
    "faudit.rules": ("RULES",),
    "faudit.rules.local": ("LocalRule",),
    "faudit.rules.rule": ("Rule", "Step"),
    "faudit.store.run": ("Run", "runs_in"),
    "faudit.train": ("fit",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'faudit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
