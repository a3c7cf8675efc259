"""Measure the peak memory of a CIFAR-10 run: ``python -m faudit.bench.memory RULE THREADS [DIR]`` trains one epoch.

The run is a whole one: it loads the data, trains, measures, tests, saves and ends. It has a process of its own, because
the system counts the peak of a process from its start. Without a folder the data is noise of the same shape.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from faudit.bench.timing import machine, must_be_some, pictures
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store.counts import counted
from faudit.store.run import Run
from faudit.train import stream

RULES_MEASURED = ("bp", "dfa")


def memory_used(*, data_dir: Path | None, threads_used: int) -> dict[str, Any]:
    """The peak memory of a ResMLP run of each rule, in MB (10⁶ bytes)."""
    must_be_some(threads=threads_used)
    if data_dir:
        pictures(data_dir)  # raises here, in one line, if the files are not there
    peaks = {rule: peak_of(rule, threads_used, data_dir) for rule in counted(RULES_MEASURED)}
    return {
        "what": "a CIFAR-10 run of ResMLP (d 256, L 4, batch 128), one epoch, in a process of its own",
        "data": "cifar10" if data_dir else "noise",
        "peak_mb": {rule: round(peak / 1e6) for rule, peak in peaks.items()},
        "machine": machine(threads_used),
    }


def peak_of(rule: str, threads_used: int, data_dir: Path | None) -> int:
    """The peak of a new process that trains one run, in bytes."""
    words = [rule, str(threads_used), *([str(data_dir)] if data_dir else [])]
    done = subprocess.run(
        [sys.executable, "-m", "faudit.bench.memory", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StoreError(f"bench: a run of {rule} ended with exit code {done.returncode}: {said}")
    return int(done.stdout)


def train_one(rule: str, threads_used: int, data_dir: Path | None) -> int:
    """Train one epoch as a run and return the peak memory of this process, as the run tells it."""
    with TemporaryDirectory(prefix="faudit-bench-") as folder:
        config = RunConfig(rule=rule, data="cifar10", epochs=1, threads=threads_used)
        run = Run(Path(folder) / config.run_id)
        for _ in stream(config, run, dataset=pictures(data_dir)):
            pass
        return int((run.outcome() or {})["peak_bytes"])


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    peaks = ", ".join(f"{rule} {peak} MB" for rule, peak in result["peak_mb"].items())
    return [f"{result['what']}, data {result['data']}, {result['machine']['threads']} threads", f"    peak: {peaks}"]


if __name__ == "__main__":
    print(train_one(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None))
