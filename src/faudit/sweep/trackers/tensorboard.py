"""Write rows as TensorBoard events, one folder per run.

Needs the package ``tensorboard`` (``pip install 'faudit[tensorboard]'``). The events of a run begin with a session
start at step 0. TensorBoard then discards the events that an earlier driver wrote for the same run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.store.rows import Row
from faudit.sweep.trackers.tracker import Record, Tracker, not_installed, scalars


class TensorBoard(Tracker):
    """Write the rows as TensorBoard events into this folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise not_installed("tensorboard", "tensorboard") from None
        super().__init__(folder)
        self._writer = EventFileWriter

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def begin(self, config: RunConfig) -> Events:
        return Events(self._writer(str(self.folder / config.run_id)))

    def close(self) -> None:
        """Hold nothing: each record has its own file."""


class Events(Record):
    """The events of one run."""

    def __init__(self, writer: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._summary, self._writer = Event, Summary, writer
        start = SessionLog(status=SessionLog.START)
        writer.add_event(Event(wall_time=time.time(), step=0, session_log=start))

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars(row)]
            event = self._event(wall_time=time.time(), step=row["epoch"], summary=self._summary(value=values))
            self._writer.add_event(event)
        self._writer.flush()

    def close(self, status: str) -> None:
        self._writer.close()
