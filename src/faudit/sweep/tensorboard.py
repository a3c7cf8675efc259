"""Write rows as TensorBoard events, one folder per run. The driver reads them from the run directories.

Needs the package ``tensorboard`` (``pip install 'faudit[tensorboard]'``). The events of a run begin with a session
start at step 0. TensorBoard then discards the events that an earlier driver wrote for the same run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.store.files import refusals
from faudit.store.rows import TIMINGS, Row
from faudit.store.run import Run
from faudit.sweep.display import Display, Ends, Together

LOOK_EVERY = 2.0  # seconds between two reads of the rows of the running runs


@contextmanager
def recorded(
    show: Display, folder: Path | None, *, wanted: Mapping[str, RunConfig], ends: Ends, runs: Path
) -> Iterator[Display]:
    """A display that also writes events into ``folder``; the display itself if ``folder`` is None."""
    if folder is None:
        yield show
        return
    board = Board(folder, runs)
    for name, (word, _) in ends.items():
        if word != "left" and not (folder / name).exists():
            board.ended(wanted[name], word, "")
    try:
        yield Together([show, board])
    finally:
        board.close()


class Board:
    """Writes the events of the running runs."""

    def __init__(self, folder: Path, runs: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ConfigError(
                "--tensorboard needs the package tensorboard, which is not installed. "
                "Install it with `pip install 'faudit[tensorboard]'`."
            ) from None
        self._event, self._session, self._summary, self._writer = Event, SessionLog, Summary, EventFileWriter
        self._folder, self._runs, self._looked = folder, runs, 0.0
        self._writers: dict[str, Any] = {}
        self._written: dict[str, int] = {}  # run id → the last epoch that was written
        with refusals(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def began(self, config: RunConfig) -> None: ...

    def say(self, text: str) -> None: ...

    def tick(self, running: Sequence[RunConfig]) -> None:
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            for config in running:
                self._write(config)

    def ended(self, config: RunConfig, word: str, text: str) -> None:
        self._write(config)
        if writer := self._writers.pop(config.run_id, None):
            writer.close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, config: RunConfig) -> None:
        name = config.run_id
        try:
            rows = Run(self._runs / name).rows()
        except StoreError:  # damaged: the code that trains or reads the run reports it
            return
        fresh = [row for row in rows if row["epoch"] > self._written.get(name, -1)]
        if fresh and name not in self._writers:
            self._writers[name] = self._writer(str(self._folder / name))
            start = self._session(status=self._session.START)
            self._writers[name].add_event(self._event(wall_time=time.time(), step=0, session_log=start))
            fresh = rows  # a new event file holds all rows
        for row in fresh:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars(row)]
            event = self._event(wall_time=time.time(), step=row["epoch"], summary=self._summary(value=values))
            self._writers[name].add_event(event)
            self._written[name] = row["epoch"]
        if fresh:
            self._writers[name].flush()


def scalars(row: Row) -> Iterator[tuple[str, float]]:
    """A row's numbers by tag: ``acc_eval``, ``hidden_norms/4``. Skips what was not measured."""
    for name, value in row.items():
        if name == "epoch" or name in TIMINGS:
            continue
        for place, number in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(number, int | float):
                yield name if place is None else f"{name}/{place}", float(number)
