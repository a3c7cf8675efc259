"""What the benchmarks share: work timed in turns, the spread of the times, and the machine that they belong to.

The candidates of a benchmark alternate in one process, because a machine drifts by more than they differ. A ratio is
taken within a round, so that both of its times come from the same minute.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.store.counts import counted
from faudit.store.environment import environment

Work = Callable[[], object]
Clock = Callable[[], float]
Keep = Callable[[dict[str, Any]], None]  # takes a result that is not complete yet


def nowhere(_: dict[str, Any]) -> None:
    """Keep nothing of a result that is not complete."""


def must_be_some(**numbers: int) -> None:
    """Refuse a number of repeats, threads or steps below 1."""
    for name, number in numbers.items():
        if number < 1:
            raise ConfigError(f"bench: expected at least 1 {name}, got {number}")


def seconds(work: Work, clock: Clock = time.perf_counter) -> float:
    """The seconds of some work."""
    started = clock()
    work()
    return clock() - started


def in_turns(
    works: Mapping[str, Work], *, repeats: int, title: str = "", clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """The seconds of each candidate in every round. Every other round goes backwards, because a machine drifts."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for place in counted(range(repeats), lambda place: f"{title} round {place + 1}".strip()):
        for name in list(works) if place % 2 == 0 else reversed(list(works)):
            times[name].append(seconds(works[name], clock))
    return times


def spread(values: Iterable[float], digits: int = 2) -> dict[str, float]:
    """The median, the least and the most."""
    values = list(values)
    numbers = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, digits) for name, value in numbers.items()}


def ratio(these: list[float], those: list[float], digits: int = 2) -> dict[str, float]:
    """How many times longer these take than those, round by round."""
    return spread((one / other for one, other in zip(these, those, strict=True)), digits)


def told(numbers: Mapping[str, float], form: str = ".2f") -> str:
    """A spread as text: the median, and the least and the most in brackets."""
    return f"{numbers['median']:{form}} ({numbers['least']:{form}}–{numbers['most']:{form}})"


def machine(threads_used: int) -> dict[str, Any]:
    """Processor, cores, memory, threads, load and versions. The load tells whether the machine was quiet."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        **environment(),
        "memory_gb": round(pages * size / 1e9, 1),
        "threads": threads_used,
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def search_path() -> str:
    """Where this process finds its modules, for a command that starts in another folder."""
    return os.pathsep.join(os.path.abspath(path) for path in sys.path)


def pictures(data_dir: Path | None) -> Dataset:
    """CIFAR-10 of a folder; without one, noise of the same shape."""
    return DATASETS["cifar10"](data_dir) if data_dir else noise()


def noise(samples: int = 60_000) -> Dataset:
    """Random pixels in CIFAR-10's shape, a sixth of them for the test: the same work without the files."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(256, (samples, 3, 32, 32), generator=draw, dtype=torch.uint8)
    y = torch.randint(10, (samples,), generator=draw)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    train = samples * 5 // 6
    return Dataset("noise", x[:train], y[:train], x[train:], y[train:], 10, mean, std, crop=4, flip=True)


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
