"""Time one CIFAR-10 epoch of ResMLP in faudit and in a plain PyTorch trainer, side by side.

The two alternate in one process. Only ratios measured in one run are worth reporting, since seconds differ between
machines and over time. Peak memory is read before the plain trainer starts, so it is faudit's.
"""

from __future__ import annotations

import importlib.util
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from faudit.config import RunConfig
from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.experiment import Experiment, prepare, threads
from faudit.store.counts import counted
from faudit.store.environment import environment
from faudit.train import measure, one_epoch

RULES_TIMED = ("bp", "dfa")
OURS = ("faudit", "probe")


def train_speed(*, data_dir: Path | None, threads_used: int, repeats: int) -> dict[str, Any]:
    """Seconds per epoch of both trainers for BP and DFA, the ratio, what the probes add, and faudit's peak memory."""
    if repeats < 1 or threads_used < 1:
        raise ConfigError(f"bench: expected at least 1 repeat and 1 thread, got {repeats} and {threads_used}")
    plain = checkout_module("plain_trainer")
    dataset = DATASETS["cifar10"](data_dir) if data_dir else noise()
    with threads(threads_used):
        jobs, peaks = {}, []
        for rule in RULES_TIMED:  # warm up, and allocate all the memory that a run allocates
            jobs[rule] = experiment(rule, dataset, threads_used)
            one_epoch(jobs[rule], 1)
            measure(jobs[rule], 10, train_loss=None, seconds=0.0)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        peak = peaks[0] / (
            1024 if sys.platform != "darwin" else 1024**2
        )  # after the first rule: one run in one process
        loaders = {
            "plain": plain.loader(plain.Pictures(dataset.train_x, dataset.train_y)),
            "plain_tensors": plain.loader(plain.Tensors(dataset.train_x, dataset.train_y)),
        }
        trainers = {"bp": plain.PlainBP(plain.PlainResMLP()), "dfa": plain.PlainDFA(plain.PlainResMLP())}
        times: dict[str, dict[str, list[float]]] = {rule: {name: [] for name in (*loaders, *OURS)} for rule in jobs}
        for _ in counted(range(repeats), named):
            for rule, ours in jobs.items():
                for name, loader in loaders.items():
                    times[rule][name].append(seconds(partial(plain.epoch, trainers[rule], loader)))
                times[rule]["faudit"].append(seconds(partial(one_epoch, ours, 1)))
                times[rule]["probe"].append(seconds(partial(measure, ours, 1, train_loss=None, seconds=0.0)))
    return {
        "what": "one CIFAR-10 epoch of ResMLP (d 256, L 4, batch 128)",
        "data": dataset.name,
        "threads": threads_used,
        "repeats": repeats,
        "rules": {rule: compared(times[rule]) for rule in RULES_TIMED},
        "peak_memory_mb": round(peak),
        "environment": environment(),
    }


def compared(times: dict[str, list[float]]) -> dict[str, Any]:
    """The ratios of the epoch times, and the probes' share of a logged epoch."""
    shares = [probe / (probe + ours) for probe, ours in zip(times["probe"], times["faudit"], strict=True)]
    return {
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "ratio": ratio(times["plain"], times["faudit"]),
        "ratio_tensors": ratio(times["plain_tensors"], times["faudit"]),
        "probe_share": round(statistics.median(shares), 4),
    }


def ratio(theirs: list[float], ours: list[float]) -> dict[str, float]:
    """How many times faster ours is: median, least and most over the repeats."""
    ratios = [plain / own for plain, own in zip(theirs, ours, strict=True)]
    return {
        "median": round(statistics.median(ratios), 2),
        "least": round(min(ratios), 2),
        "most": round(max(ratios), 2),
    }


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [f"{result['what']}, data {result['data']}, {result['threads']} threads, {result['repeats']} epochs each"]
    for rule, entry in result["rules"].items():
        middle = {name: statistics.median(values) for name, values in entry["seconds"].items()}
        out.append(f"{rule}: faudit {middle['faudit']:.2f} s, probes {entry['probe_share']:.1%} of a logged epoch")
        for name, key, what in (("plain", "ratio", "pictures"), ("plain_tensors", "ratio_tensors", "tensors")):
            faster = entry[key]
            out.append(
                f"    plain PyTorch, per-sample {what}: {middle[name]:.2f} s, faudit is {faster['median']:.1f}× faster "
                f"({faster['least']:.1f}–{faster['most']:.1f})"
            )
    return [*out, f"peak memory of faudit: {result['peak_memory_mb']} MB"]


def experiment(rule: str, dataset: Dataset, threads_used: int) -> Experiment:
    return prepare(RunConfig(rule=rule, data="cifar10", threads=threads_used), dataset)


def named(place: int) -> str:
    """The name of a repeat in the count of those that are done."""
    return f"repeat {place + 1}"


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def noise() -> Dataset:
    """Random pixels in CIFAR-10's shape: the same work, for a machine without the files."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(256, (60_000, 3, 32, 32), generator=draw, dtype=torch.uint8)
    y = torch.randint(10, (60_000,), generator=draw)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    return Dataset("noise", x[:50_000], y[:50_000], x[50_000:], y[50_000:], 10, mean, std, crop=4, flip=True)


def checkout_module(name: str) -> ModuleType:
    """A module of ``benchmarks/`` in the checkout that this package runs from."""
    path = Path(__file__).parents[3] / "benchmarks" / f"{name}.py"
    if not path.exists():
        raise ConfigError(
            f"faudit bench compares with benchmarks/{name}.py, which only a source checkout has. "
            "Clone the repository and install it with `pip install -e .`."
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a path that exists has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the loader's workers look it up by name
    spec.loader.exec_module(module)
    return module
