"""Small runs, waiting for them, and holding them against each other: rows but for the timings, weights, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from faudit.config import RunConfig
from faudit.store.checkpoint import load, weights
from faudit.store.rows import TIMINGS, Row
from faudit.store.run import Run
from faudit.train import fit, stream

QUICK = RunConfig(data="digits", epochs=3, width=16, depth=2, batch_size=128)
TINY = RunConfig(data="digits", epochs=2, width=8, depth=2, batch_size=256)


def without_timings(rows: list[Row]) -> list[Row]:
    return [Row({name: value for name, value in row.items() if name not in TIMINGS}) for row in rows]


def same_weights(a: Run, b: Run) -> bool:
    one, other = weights(a.checkpoint), weights(b.checkpoint)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def identical(disturbed: Run, calm: Run) -> None:
    """Assert that a run that was disturbed ended as one that was not: rows, weights and every other tensor."""
    assert disturbed.status == calm.status == "done"
    assert without_timings(disturbed.rows()) == without_timings(calm.rows())
    assert same_weights(disturbed, calm)
    one, other = load(disturbed.checkpoint)[0], load(calm.checkpoint)[0]
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)
    assert not list(disturbed.path.glob(".*.tmp"))


def same_as_alone(configs: list[RunConfig], store: Path, alone: Path) -> None:
    """Assert that the runs of a store are those that ``fit`` makes one after another in the store ``alone``."""
    for config in configs:
        made, calm = Run(store / config.run_id), fit(config, alone)
        assert made.status == "done"
        assert without_timings(made.rows()) == without_timings(calm.rows())
        assert "resumed" not in made.environment()
        one, other = made.outcome(), calm.outcome()
        assert one and other and one["weights_sha256"] == other["weights_sha256"]


def until(holds: Callable[[], Any], seconds: float = 60) -> bool:
    """Wait until something holds; whether it did in time."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(holds())


def survives_a_stop(config: RunConfig, store: Path, *, rows: int = 2) -> None:
    """Assert that a run stopped after some rows, before their checkpoint, ends as one that was not stopped."""
    written = stream(config, Run(store / "stopped" / config.run_id))
    for _ in range(rows):
        next(written)
    written.close()  # type: ignore[attr-defined]  # stream is a generator
    identical(fit(config, store / "stopped"), fit(config, store / "calm"))
