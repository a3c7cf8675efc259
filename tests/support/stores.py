"""Stores for tests of the report: many fabricated runs, and a few real ones with audits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from faudit.audit.audit import audit
from faudit.audit.protocol import DEFAULT, protocol
from faudit.config import RunConfig
from faudit.report.collection import Collection
from faudit.store.run import Run
from faudit.train import fit
from tests.support import fabricate

REAL = RunConfig(rule="dfa", epochs=6, width=16, depth=2, batch_size=128, eval_size=64)
SCRIPT = "<script>alert(1)</script>"


def look(store: Path) -> Collection:
    """A store as the report sees it."""
    found = Collection(store, protocol(DEFAULT))
    found.look()
    return found


def audited(store: Path) -> Path:
    """Three real runs: one audited, its audited control, and one that was never audited."""
    for config in (REAL, REAL.with_(rule="frozen-dfa")):
        audit(fit(config, store), protocol(DEFAULT), data_dir=None)
    fit(REAL.with_(seed=7), store)
    return store


def many(store: Path, *, runs: int, epochs: int, seeds: int = 5) -> Path:
    """Fabricated runs of several rules and learning rates."""
    rules = ("bp", "fa", "dfa", "frozen-bp", "frozen-fa", "frozen-dfa")
    made = 0
    for step in range(1, 1 + runs):
        for rule in rules:
            for seed in range(seeds):
                if made == runs:
                    return store
                fabricate.write(RunConfig(rule=rule, lr=0.001 * step, seed=seed, epochs=epochs), store)
                made += 1
    return store


def failed(run: Run, reason: str) -> None:
    """Make a fabricated run one that failed."""
    (run.path / "done.json").unlink()
    (run.path / "failed.json").write_text(json.dumps({"reason": reason, "epoch": run.config().epochs}))


def copied(store: Path, to: Path) -> Path:
    return Path(shutil.copytree(store, to))
