"""Time a full audit of a CIFAR-10 ResMLP against one epoch of training it, in one process.

The audit runs every probe: 1024 samples, 5 taps, ρ with 32 directions by both definitions, 20 draws of fresh feedback,
the float64 referee and all others. The two are timed in turns. Only their ratio is worth reporting.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import Any

from faudit.bench.timing import machine, must_be_some, pictures, ratio, seconds
from faudit.bench.train import experiment
from faudit.experiment import Experiment, threads
from faudit.probes import PROBES
from faudit.store.counts import counted
from faudit.train import one_epoch, read


def audit_speed(*, data_dir: Path | None, threads_used: int, repeats: int) -> dict[str, Any]:
    """Time one epoch of DFA and one full audit of the trained network; returns seconds and their ratio."""
    must_be_some(repeats=repeats, threads=threads_used)
    dataset = pictures(data_dir)
    epochs, audits, parts = [], [], {}
    with threads(threads_used):
        trained = experiment("dfa", dataset, threads_used)
        one_epoch(trained, 1)
        every_probe(trained)  # warm up
        for _ in counted(range(repeats), lambda place: f"repeat {place + 1}"):
            epochs.append(seconds(partial(one_epoch, trained, 1)))
            parts = every_probe(trained)
            audits.append(sum(parts.values()))
    return {
        "what": "a full audit of a CIFAR-10 ResMLP (d 256, L 4, 1024 samples) against one epoch of DFA",
        "data": dataset.name,
        "threads": threads_used,
        "repeats": repeats,
        "seconds": {"epoch": [round(value, 3) for value in epochs], "audit": [round(value, 3) for value in audits]},
        "audit_over_epoch": ratio(audits, epochs),
        "epoch_over_audit": ratio(epochs, audits),
        "probes": {name: round(value, 3) for name, value in parts.items()},
        "machine": machine(threads_used),
    }


def every_probe(trained: Experiment) -> dict[str, float]:
    """Seconds of each probe on a new reading. The time of the shared passes counts for the first probe."""
    reading = read(trained)
    return {name: seconds(partial(PROBES[name]().measure, reading)) for name in PROBES}


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    middle = {name: statistics.median(values) for name, values in result["seconds"].items()}
    faster = result["epoch_over_audit"]
    dearest = sorted(result["probes"].items(), key=lambda pair: -pair[1])[:3]
    return [
        f"{result['what']}, data {result['data']}, {result['threads']} threads, {result['repeats']} of each",
        f"one epoch {middle['epoch']:.2f} s, one full audit {middle['audit']:.2f} s: an epoch takes "
        f"{faster['median']:.2f}× as long ({faster['least']:.2f}–{faster['most']:.2f})",
        "dearest probes: " + ", ".join(f"{name} {value:.2f} s" for name, value in dearest),
    ]
