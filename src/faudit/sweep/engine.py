"""The engine contract, and the code that every engine's worker runs.

An engine takes runs and returns one answer for each. It trains in processes of this machine (``local``) or on a
cluster (``ray``, ``slurm``). ``drive`` uses only the interface in this file. An engine writes the files of a run into
the driver's store before it returns the answer that the run has ended.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from faudit.config import RunConfig
from faudit.errors import OUT_OF_MEMORY, ConfigError, FauditError, LockedError, is_out_of_memory
from faudit.store.run import Run

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset


@dataclass(frozen=True)
class Answer:
    """The result of one attempt to train a run, and the reason.

    ``ended``: the files of the run say how. ``held``: another process holds the run. ``refused``: it cannot be trained
    with these settings or files. ``raised``: it met a bug. ``disk``: one of its files could not be read or written.
    ``died``: its worker died; try again.
    """

    word: str
    text: str = ""
    remarks: tuple[str, ...] = ()


class Engine(Protocol):
    """Trains several runs at once and answers each one once."""

    @property
    def running(self) -> list[RunConfig]:
        """The runs that were given and not answered yet."""

    @property
    def free(self) -> bool:
        """Whether one more run may be given."""

    def give(self, config: RunConfig) -> None:
        """Train a run to its end, from its last checkpoint if it has one."""

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        """The answers since the last call. Waits at most ``timeout`` seconds for the first."""

    def close(self) -> None:
        """Stop everything within seconds. A stopped run can resume from its checkpoint later."""


@runtime_checkable
class StackingEngine(Engine, Protocol):
    """An engine whose workers can train several runs as one computation."""

    def give_stack(self, configs: Sequence[RunConfig]) -> None:
        """Train several runs to their end in one worker. Each is answered by itself."""


def one_by_one(configs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """Every run by itself."""
    return [[config] for config in configs]


@dataclass(frozen=True)
class Start:
    """Starts an engine. It is called only if there are runs to train."""

    engine: Callable[[Sequence[RunConfig]], Engine]
    elsewhere: bool = False  # whether its workers may have data and devices that this machine does not have
    at_once: int | None = None  # most runs side by side, if the cores of this machine do not decide it
    groups: Callable[[Sequence[RunConfig]], list[list[RunConfig]]] = one_by_one  # which runs one worker gets at once

    def __call__(self, todo: Sequence[RunConfig]) -> Engine:
        """Start the engine for these runs."""
        return self.engine(todo)


LOCAL, RAY, SLURM = {"engine": "local"}, {"engine": "ray"}, {"engine": "slurm"}  # the engine that reads a flag


@dataclass(frozen=True)
class Flags:
    """What the command line says to one engine alone. None means that the flag was not given."""

    stack: str | None = field(default=None, metadata=LOCAL)
    address: str | None = field(default=None, metadata=RAY)
    partition: str | None = field(default=None, metadata=SLURM)
    time_limit: str | None = field(default=None, metadata=SLURM)
    memory: str | None = field(default=None, metadata=SLURM)
    cpus: int | None = field(default=None, metadata=SLURM)
    runs_per_job: int | None = field(default=None, metadata=SLURM)
    log_dir: Path | None = field(default=None, metadata=SLURM)
    sbatch: Sequence[str] | None = field(default=None, metadata=SLURM)

    def only(self, engine: str) -> None:
        """Raise if a flag of another engine was given."""
        for one in fields(self):
            value, owner = getattr(self, one.name), one.metadata["engine"]
            if value is not None and owner != engine:
                got = " ".join(value) if isinstance(value, list) else str(value)
                raise ConfigError(
                    f"--{one.name.replace('_', '-')}: expected with --engine {owner}, got {got!r} without. "
                    f"Add --engine {owner}."
                )


NO_FLAGS = Flags()


class Starter(Protocol):
    """The function that each engine's module offers. It refuses flags that the engine cannot use."""

    def __call__(self, runs: Path, *, data_dir: Path | None, jobs: int | None, flags: Flags) -> Start:
        """Return a ``Start`` for runs of the store ``runs``."""


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attempt(settings: Mapping[str, Any], runs: Path, *, data_dir: Path | None) -> Answer:
    """Train one run to its end. The process may have trained other runs before."""

    def train(config: RunConfig) -> str:
        from faudit.train import writes

        steps = sum(1 for _ in writes(config, Run(runs / config.run_id), dataset=loaded(config.data, data_dir)))
        return "" if steps else "by another process"  # it finished the run before this one took the lock

    return answered(RunConfig.parse(settings, where="sweep"), train)


def answered(config: RunConfig, train: Callable[[RunConfig], str]) -> Answer:
    """Call ``train`` and turn its result, or whatever it raises, into an answer. So one run cannot stop the others."""
    bug: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        try:
            word, text = "ended", train(config)
        except FauditError as error:
            cause = "disk" if isinstance(error.__cause__, OSError) else "refused"
            word, text = "held" if isinstance(error, LockedError) else cause, "; ".join(str(error).splitlines())
        except Exception as error:  # noqa: BLE001  # reported with its traceback; the other runs go on
            if is_out_of_memory(error):
                word, text = "refused", OUT_OF_MEMORY
            else:
                word, text = "raised", f"met a bug: {error!r}"
                bug = [f"{config.run_id} met a bug:\n{traceback.format_exc()}"]
    return Answer(word, text, (*(f"faudit: warning: {entry.message}" for entry in caught), *bug))


@cache
def loaded(name: str, data_dir: Path | None) -> Dataset:
    """A dataset, loaded once per process. The runs can share it, since training does not write into it."""
    from faudit.data import DATASETS

    return DATASETS[name](data_dir)
