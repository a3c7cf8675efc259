"""The engine contract: runs go in, an answer comes back for each; and what every engine's worker does.

An engine trains runs somewhere else: in processes of this machine (``local``), on a cluster (``ray``). ``drive`` hands
out the runs and knows no more of an engine than this file says. Whatever an engine does, the driver's store holds the
truth: a run that has ended has its files there before its answer comes.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from faudit.config import RunConfig
from faudit.errors import OUT_OF_MEMORY, FauditError, LockedError, is_out_of_memory
from faudit.store.run import Run

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset


@dataclass(frozen=True)
class Answer:
    """What became of one attempt at a run, and why.

    ``ended``: its files say how. ``held`` by another process. ``refused``: it cannot be trained as it is. ``raised``:
    it met a bug. ``disk``: a file of it could not be read or written. ``died``: whoever trained it did; try again.
    """

    word: str
    text: str = ""
    remarks: tuple[str, ...] = ()


class Engine(Protocol):
    """Up to so many runs at once, each answered once."""

    @property
    def running(self) -> list[RunConfig]:
        """What was given and not answered yet."""

    @property
    def free(self) -> bool:
        """Whether one more may be given."""

    def give(self, config: RunConfig) -> None:
        """Train a run to its end, from its last checkpoint if it has one."""

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        """What became of runs since the last call, waiting at most so many seconds for the first."""

    def close(self) -> None:
        """Stop everything within seconds. A run under way stays where it is: it goes on from its checkpoint later."""


@dataclass(frozen=True)
class Start:
    """How to start an engine for some runs, called only when there are some."""

    engine: Callable[[Sequence[RunConfig]], Engine]
    elsewhere: bool = False  # whether its workers may have data and devices that are not here

    def __call__(self, todo: Sequence[RunConfig]) -> Engine:
        """Start it for these runs."""
        return self.engine(todo)


class Starter(Protocol):
    """What an engine's file offers: refuse every flag that it cannot use, and say how to start it."""

    def __call__(self, runs: Path, *, data_dir: Path | None, jobs: int | None, address: str | None) -> Start:
        """How to start the engine for runs of a store."""


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attempt(settings: Mapping[str, Any], runs: Path, *, data_dir: Path | None) -> Answer:
    """Train one run to its end, in a process that may have trained others before."""

    def train(config: RunConfig) -> str:
        from faudit.train import writes

        steps = sum(1 for _ in writes(config, Run(runs / config.run_id), dataset=loaded(config.data, data_dir)))
        return "" if steps else "by another process"  # while this one began

    return answered(RunConfig.parse(settings, where="sweep"), train)


def answered(config: RunConfig, train: Callable[[RunConfig], str]) -> Answer:
    """How training went, as an answer with what ``train`` says of it: nothing that one run does reaches the others."""
    bug: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        try:
            word, text = "ended", train(config)
        except FauditError as error:
            cause = "disk" if isinstance(error.__cause__, OSError) else "refused"
            word, text = "held" if isinstance(error, LockedError) else cause, "; ".join(str(error).splitlines())
        except Exception as error:  # noqa: BLE001  # told with its traceback; the other runs are none the worse for it
            if is_out_of_memory(error):
                word, text = "refused", OUT_OF_MEMORY
            else:
                word, text = "raised", f"met a bug: {error!r}"
                bug = [f"{config.run_id} met a bug:\n{traceback.format_exc()}"]
    return Answer(word, text, (*(f"faudit: warning: {entry.message}" for entry in caught), *bug))


@cache
def loaded(name: str, data_dir: Path | None) -> Dataset:
    """A dataset, loaded once in this process however many runs it trains on it; training writes nothing into it."""
    from faudit.data import DATASETS

    return DATASETS[name](data_dir)
