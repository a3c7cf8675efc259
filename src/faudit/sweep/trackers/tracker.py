"""The interface of a tracker, and the display that feeds the rows of running runs to trackers.

A tracker writes into one folder of this machine and uses no network. The rows come from the run directories, so the
trainer does not know about trackers. If the driver starts again, a run that is not finished is recorded from its first
row again, and the new record replaces the old one.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.store.files import refusals
from faudit.store.rows import TIMINGS, Row
from faudit.store.run import Run, Status
from faudit.sweep.display import Display, Ends, Together
from faudit.sweep.trackers import TRACKERS

LOOK_EVERY = 2.0  # seconds between two reads of the rows of the running runs


class Record(ABC):
    """The record of one run."""

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Add rows, which must be readable for the other program at once."""

    @abstractmethod
    def close(self, status: str) -> None:
        """End the record of a run that is done, failed or stopped."""


class Tracker(ABC):
    """Writes records into ``folder``. Raises ``ConfigError`` if its package is not installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        """Make the folder; nothing is written before."""
        with refusals(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a record of the run with this id."""

    @abstractmethod
    def begin(self, config: RunConfig) -> Record:
        """Begin the record of a run. It replaces an earlier record of the same run."""

    @abstractmethod
    def close(self) -> None:
        """Free what the tracker holds."""


@contextmanager
def recorded(
    show: Display, folders: Mapping[str, Path], *, wanted: Mapping[str, RunConfig], ends: Ends, runs: Path
) -> Iterator[Display]:
    """A display that also feeds trackers, given by name with the folder of each; the display itself without any."""
    if not folders:
        yield show
        return
    recorders = [Recorder(TRACKERS[name](folder), runs) for name, folder in folders.items()]
    try:
        for recorder in recorders:
            recorder.tracker.open()
            for name, (word, _) in ends.items():
                if word != "left" and not recorder.tracker.has(name):
                    recorder.ended(wanted[name], word, "")
        yield Together([show, *recorders])
    finally:
        for recorder in recorders:
            recorder.close()


def followed(rows: Iterable[Row], config: RunConfig, run: Run, folders: Mapping[str, Path]) -> Iterator[Row]:
    """The rows of one run as they come. Each is also handed to the trackers, given by name with their folders.

    A folder is made when the first row is there, so that a run that is refused leaves none.
    """
    recorders = [Recorder(TRACKERS[name](folder), run.path.parent) for name, folder in folders.items()]
    is_open = False
    try:
        for row in rows:
            for recorder in recorders:
                if not is_open:
                    recorder.tracker.open()
                recorder.look(config)
            is_open = True
            yield row
        for recorder in recorders:
            if not is_open:
                recorder.tracker.open()
            if recorder.is_recording(config) or not recorder.tracker.has(config.run_id):
                recorder.ended(config, run.status, "")
    finally:
        for recorder in recorders:
            recorder.close()


class Recorder:
    """A display that hands each new row to a tracker."""

    def __init__(self, tracker: Tracker, runs: Path) -> None:
        self.tracker, self._runs, self._looked = tracker, runs, 0.0
        self._records: dict[str, Record] = {}
        self._written: dict[str, int] = {}  # run id → the last epoch that was written

    def began(self, config: RunConfig) -> None: ...

    def say(self, text: str) -> None: ...

    def tick(self, running: Sequence[RunConfig]) -> None:
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            for config in running:
                self.look(config)

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        self.look(config)
        if record := self._records.pop(config.run_id, None):
            record.close(word if word in (Status.DONE, Status.FAILED) else Status.STOPPED)

    def close(self) -> None:
        for record in self._records.values():
            record.close(Status.STOPPED)
        self._records.clear()
        self.tracker.close()

    def is_recording(self, config: RunConfig) -> bool:
        """Whether it has begun the record of a run and not ended it."""
        return config.run_id in self._records

    def look(self, config: RunConfig) -> None:
        """Write the rows that are new."""
        name = config.run_id
        try:
            rows = Run(self._runs / name).rows()
        except StoreError:  # damaged: the code that trains or reads the run reports it
            return
        fresh = [row for row in rows if row["epoch"] > self._written.get(name, -1)]
        if not fresh:
            return
        if name not in self._records:
            self._records[name] = self.tracker.begin(config)
            fresh = rows  # a new record holds all rows
        self._records[name].write(fresh)
        self._written[name] = fresh[-1]["epoch"]


def scalars(row: Row) -> Iterator[tuple[str, float]]:
    """A row's numbers by tag: ``acc_eval``, ``hidden_norms/4``. Skips what was not measured."""
    for name, value in row.items():
        if name == "epoch" or name in TIMINGS:
            continue
        for place, number in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(number, int | float):
                yield name if place is None else f"{name}/{place}", float(number)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment for a while. All are restored, also those that a package sets meanwhile."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def not_installed(flag: str, package: str) -> ConfigError:
    """The error for a tracker whose package is missing."""
    return ConfigError(
        f"--{flag} needs the package {package}, which is not installed. Install it with `pip install 'faudit[{flag}]'`."
    )
