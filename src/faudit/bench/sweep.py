"""Measure how well a sweep uses the cores: train the built-in 48-run study one run at a time, then as a sweep.

The baseline is the sum of the times of the single runs, each alone in one warm process on one thread, divided by the
number of jobs. A sweep without overhead would take this long. The time of the sweep is that of the whole command: it
includes imports, the check of the study and the start of the workers. The overhead of a tiny run is the time from the
end of one run to the end of the next in the same worker, minus the time of the run itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from faudit.bench.timing import search_path
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
    """Seconds one at a time and as a sweep, their ratio, and the overhead of a tiny run."""
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


def swept(study: Path, store: Path, *, jobs: int, data_dir: Path | None = None) -> float:
    """The seconds of the command that trains every run of a study."""
    words = ["sweep", str(study.absolute()), "--runs", str(store.absolute()), "--jobs", str(jobs)]
    words += ["--data-dir", str(data_dir.absolute())] if data_dir else []
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "faudit", *words],
        cwd=study.absolute().parent,  # where a study may have members of its own
        env={**os.environ, "PYTHONPATH": search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StoreError(f"bench: `faudit {' '.join(words)}` ended with exit code {done.returncode}: {said}")
    return wall


def one_by_one(configs: Sequence[RunConfig], store: Path) -> list[float]:
    """The seconds of each run in this process. torch is imported and the data loaded before the first run."""
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
    """The seconds that each tiny run after the first took beyond its own training and probes, in one worker."""
    run_all(configs, store, data_dir=None, jobs=1)
    ends = []
    for config in configs:
        run = Run(store / config.run_id)
        ends.append(((run.path / "done.json").stat().st_mtime, (run.outcome() or {})["seconds"]))
    return [after - before - took for (before, _), (after, took) in pairwise(sorted(ends))]


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    over = result["overhead_of_a_tiny_run"]
    return [
        f"{result['runs']} runs one after another: {result['seconds_alone']:.1f} s",
        f"`faudit sweep` with {result['jobs']} at once: {result['seconds_together']:.1f} s, "
        f"{result['ratio']:.3f} × (the sum / {result['jobs']})",
        f"overhead of a tiny run: {over['median']:.2f} s (at most {over['most']:.2f} s)",
    ]
