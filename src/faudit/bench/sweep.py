"""How well a sweep uses the cores: the built-in 48-run study one run after another, then as a sweep, in one go.

The yardstick is the sum of the runs' own times, each alone in one warm process on one thread, divided by the number of
jobs: what a sweep would take that cost nothing. A sweep's time is that of the command, from the start of its process to
its end: imports, the study's check and the start of the workers are in it. The overhead of a tiny run is the time from
one run's end to the next one's in a worker, less what the run itself took.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.store.environment import environment
from faudit.store.run import Run
from faudit.sweep import STUDIES
from faudit.sweep.engine import attempt
from faudit.sweep.local import run_all
from faudit.sweep.study import read

TINY = RunConfig(data="digits", epochs=1, width=8, depth=2, batch_size=256)
MANY = 12  # tiny runs, one after another in one worker


def sweep_speed(
    *, jobs: int, study: Path = STUDIES["penalties"], tiny: int = MANY, runs: Path | None = None
) -> dict[str, Any]:
    """Seconds alone and side by side, their ratio, and the overhead of a tiny run."""
    if jobs < 1 or tiny < 2:
        raise ConfigError(f"bench: expected at least 1 experiment and 2 tiny runs, got {jobs} and {tiny}")
    configs = read(study)
    with tempfile.TemporaryDirectory(prefix="faudit-bench-") as folder:
        store = runs or Path(folder)
        alone = one_by_one(configs, store / "alone")
        wall = swept(study, store / "together", jobs=jobs)
        overhead = overheads([TINY.with_(seed=seed) for seed in range(tiny)], store / "tiny")
    return {
        "what": "a study on this machine's cores",
        "runs": len(configs),
        "jobs": jobs,
        "seconds_alone": round(sum(alone), 2),
        "seconds_together": round(wall, 2),
        "ratio": round(wall / (sum(alone) / jobs), 3),
        "overhead_of_a_tiny_run": {"median": round(median(overhead), 3), "most": round(max(overhead), 3)},
        "environment": environment(),
    }


def swept(study: Path, store: Path, *, jobs: int) -> float:
    """The seconds of the command that makes every run of a study."""
    words = ["sweep", str(study.absolute()), "--runs", str(store.absolute()), "--jobs", str(jobs)]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "faudit", *words], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StoreError(f"bench: `faudit {' '.join(words)}` ended with exit code {done.returncode}: {said}")
    return wall


def one_by_one(configs: Sequence[RunConfig], store: Path) -> list[float]:
    """Each run's seconds in this process, warm: torch is imported and the data loaded before the first one."""
    attempt(TINY.to_json(), store / "warm", data_dir=None)
    times = []
    for config in configs:
        started = time.perf_counter()
        answer = attempt(config.to_json(), store, data_dir=None)
        times.append(time.perf_counter() - started)
        if answer.word != "ended":
            raise StoreError(f"bench: {config.run_id} did not end: {answer.text}")
    return times


def overheads(configs: Sequence[RunConfig], store: Path) -> list[float]:
    """What each tiny run but the first took beyond its own training and probes, in one worker."""
    run_all(configs, store, data_dir=None, jobs=1)
    ends = []
    for config in configs:
        run = Run(store / config.run_id)
        ends.append(((run.path / "done.json").stat().st_mtime, (run.outcome() or {})["seconds"]))
    return [after - before - took for (before, _), (after, took) in pairwise(sorted(ends))]


def lines(result: dict[str, Any]) -> list[str]:
    """The result for a person."""
    over = result["overhead_of_a_tiny_run"]
    return [
        f"{result['runs']} runs one after another: {result['seconds_alone']:.1f} s",
        f"`faudit sweep` with {result['jobs']} at once: {result['seconds_together']:.1f} s, "
        f"{result['ratio']:.3f} × (the sum / {result['jobs']})",
        f"overhead of a tiny run: {over['median']:.2f} s (at most {over['most']:.2f} s)",
    ]
