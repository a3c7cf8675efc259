"""Time how the cost grows: with depth, width, batch and evaluation buffer, each apart, on a ResMLP.

A sweep of one size times some training steps of BP and DFA, a row of cheap probes, or a full audit. All sizes alternate
in one process. For depth, batch and buffer a straight line is fitted to the medians. Its R² says whether the cost is
linear. For width the slope between the logarithms is given: 1 is linear, 2 is quadratic.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from faudit.bench.timing import Work, in_turns, machine, must_be_some, noise
from faudit.config import RunConfig
from faudit.data.dataset import Dataset
from faudit.experiment import Experiment, prepare, threads
from faudit.probes import PROBES
from faudit.train import measure, one_epoch, read

SMALL = {"width": 64, "eval_size": 64}  # of an audit by depth: it costs hundreds of passes through each block


@dataclass(frozen=True)
class Sweep:
    """One setting at several sizes: what is timed, and the other settings."""

    setting: str
    sizes: tuple[int, ...]
    timed: tuple[str, ...]
    steps: int = 4
    others: Mapping[str, Any] | None = None
    most: int = 100  # rounds


DEPTHS, WIDTHS = (2, 4, 8, 16, 32, 64), (64, 128, 256, 512, 1024, 2048)
BATCHES, BUFFERS = (32, 64, 128, 256, 512, 1024), (128, 256, 512, 1024, 2048)
SWEEPS = {
    "depth": Sweep("depth", DEPTHS, ("bp step", "dfa step", "probes"), others={"eval_size": 256}),
    "depth, audit": Sweep("depth", DEPTHS, ("audit",), others=SMALL, most=2),
    "width": Sweep("width", WIDTHS, ("bp step", "dfa step", "probes"), steps=1, others={"eval_size": 256}),
    "batch": Sweep("batch_size", BATCHES, ("bp step", "dfa step"), steps=2),
    "buffer": Sweep("eval_size", BUFFERS, ("probes",)),
    "buffer, audit": Sweep("eval_size", BUFFERS, ("audit",), others={"width": 64}, most=2),
}


def growth_speed(*, threads_used: int, repeats: int, sizes: int | None = None) -> dict[str, Any]:
    """The milliseconds of each work at each size, with the fits; ``sizes`` takes only the smallest ones."""
    must_be_some(repeats=repeats, threads=threads_used)
    dataset = noise(24_000)
    with threads(threads_used):
        found = {
            name: grown(name, sweep, dataset, sizes=sweep.sizes[:sizes], repeats=repeats, threads_used=threads_used)
            for name, sweep in SWEEPS.items()
        }
    return {
        "what": "cost of a ResMLP (d 256, L 4, batch 128, 1024 samples) as one size grows",
        "repeats": repeats,
        "sweeps": found,
        "machine": machine(threads_used),
    }


def grown(
    name: str, sweep: Sweep, dataset: Dataset, *, sizes: Sequence[int], repeats: int, threads_used: int
) -> dict[str, Any]:
    """One sweep: medians in milliseconds by what is timed, and their fits."""
    works: dict[str, Work] = {}
    for size in sizes:
        settings = {**(sweep.others or {}), sweep.setting: size, "threads": threads_used}
        for timed in sweep.timed:
            rule = "bp" if timed == "bp step" else "dfa"
            config = RunConfig(rule=rule, data="cifar10", **settings)
            trained = prepare(config.with_(train_size=sweep.steps * config.batch_size), dataset)
            works[f"{timed} {size}"] = partial(WORKS[timed], trained)
            if timed != "audit" or size == sizes[0]:
                works[f"{timed} {size}"]()  # warm up; an audit of a deep net takes too long for that
    rounds = min(repeats, sweep.most)
    times = in_turns(works, repeats=rounds, title=name)
    per = {"bp step": sweep.steps, "dfa step": sweep.steps}
    out = {}
    for timed in sweep.timed:
        medians = [1000 * statistics.median(times[f"{timed} {size}"]) / per.get(timed, 1) for size in sizes]
        fit = exponent(sizes, medians) if sweep.setting == "width" else line(sizes, medians)
        out[timed] = {"milliseconds": [round(value, 3) for value in medians], **fit}
    return {
        "setting": sweep.setting.replace("_", "-"),
        "sizes": list(sizes),
        "others": dict(sweep.others or {}),
        "rounds": rounds,
        "timed": out,
    }


def epoch_of(trained: Experiment) -> None:
    one_epoch(trained, 1)


def row_of(trained: Experiment) -> None:
    measure(trained, 1, train_loss=None, seconds=0.0)


def audit_of(trained: Experiment) -> None:
    """Every probe once on a new reading."""
    reading = read(trained)
    for probe in PROBES.values():
        probe().measure(reading)


WORKS: dict[str, Callable[[Experiment], None]] = {
    "bp step": epoch_of,
    "dfa step": epoch_of,
    "probes": row_of,
    "audit": audit_of,
}


def line(sizes: Sequence[int], values: Sequence[float]) -> dict[str, float]:
    """The least-squares line through (size, value), and the share of the variance that it explains."""
    slope, intercept = statistics.linear_regression(sizes, values)
    return {
        "slope": round(slope, 5),
        "intercept": round(intercept, 3),
        "r2": round(statistics.correlation(sizes, values) ** 2, 5),
    }


def exponent(sizes: Sequence[int], values: Sequence[float]) -> dict[str, float]:
    """The slope of log value over log size."""
    slope, _ = statistics.linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values])
    return {"exponent": round(slope, 3)}


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [f"{result['what']}, {result['machine']['threads']} threads, {result['repeats']} rounds; milliseconds"]
    for sweep in result["sweeps"].values():
        out.append(f"{sweep['setting']} {' '.join(map(str, sweep['sizes']))}")
        for timed, entry in sweep["timed"].items():
            fit = f"exponent {entry['exponent']:.2f}" if "exponent" in entry else f"R² {entry['r2']:.4f}"
            out.append(f"    {timed:<10}{' '.join(f'{value:.1f}' for value in entry['milliseconds'])}  ({fit})")
    return out
