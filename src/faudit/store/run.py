"""A run is one directory; this file knows every path in it and how each is written.  (no torch)

    config.json  env.json       what was asked, and where it ran: written first
    rows.jsonl                  one row per logged epoch, appended and flushed to disk
    last.safetensors            the newest checkpoint, replaced whole; epoch-<k>.safetensors those kept on request
    done.json | failed.json     exactly one of them, written last

Status is which files exist and whether the lock is held. Whoever trains holds ``lock``; the operating system drops it
with the process, so a killed run is free at once. A file is either whole or absent: it is written beside its name,
flushed, then renamed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import filelock
import orjson

from faudit.config import RunConfig
from faudit.errors import ConfigError, LockedError, StoreError
from faudit.registry import unknown
from faudit.store.files import contents, read_json, refusals, write_json, write_whole
from faudit.store.rows import Row, from_line, from_lines, to_line

FORMAT = 1  # of the run directory; a reader refuses a larger one
LOCK_PATIENCE = 2.0  # seconds: somebody asking for the status holds the lock for a moment


class Status(str, Enum):
    """How a run stands; in JSON and for a reader, the word."""

    NEW = "new"
    RUNNING = "running"
    STOPPED = "stopped"  # started and not finished, free to resume
    DONE = "done"
    FAILED = "failed"

    __str__ = str.__str__  # Python 3.12 would write Status.DONE


ENDED = (Status.DONE, Status.FAILED)


@dataclass(frozen=True)
class Run:
    """One run's directory."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def checkpoint(self) -> Path:
        return self.path / "last.safetensors"

    def kept(self, epoch: int) -> Path:
        """A checkpoint kept on request (``keep-epochs``)."""
        return self.path / f"epoch-{epoch}.safetensors"

    @property
    def rows_file(self) -> Path:
        return self.path / "rows.jsonl"

    @property
    def status(self) -> Status:
        """How the run stands, by its files and its lock."""
        with refusals(self.path):
            if self._has("done.json"):
                return Status.DONE
            if self._has("failed.json"):
                return Status.FAILED
            if not self._has("config.json"):
                return Status.NEW
        return Status.RUNNING if self._is_locked() else Status.STOPPED

    def _has(self, name: str) -> bool:
        """Whether a file is there; joined as text, which is many times as fast as a path where there are thousands."""
        try:
            os.stat(f"{self.path}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _is_locked(self) -> bool:
        try:
            with filelock.FileLock(self.path / "lock", timeout=0):
                return False
        except filelock.Timeout:
            return True
        except OSError:  # a store we may not write: nobody holds a lock we could not open either
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process, or say who cannot have it."""
        with refusals(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.path / "lock", timeout=LOCK_PATIENCE)
        try:
            with refusals(self.path):
                lock.acquire()
        except filelock.Timeout:
            raise LockedError(
                f"{self.path} is being trained by another process. Wait for it, or watch it with `faudit show`."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def begin(self, config: RunConfig, environment: Mapping[str, Any]) -> list[str]:
        """Record what was asked, or check that it is what was asked before; remarks on a changed environment."""
        for left_over in self.path.glob(".*.tmp"):  # of a process killed between writing and renaming
            left_over.unlink(missing_ok=True)
        if not (self.path / "config.json").exists():
            write_json(self.path / "env.json", environment)
            write_json(
                self.path / "config.json", {"format": FORMAT, "run_id": config.run_id, "config": config.to_json()}
            )
            return []
        self.must_hold(config)
        before = self.environment()
        if before.get("data_sha256") != environment.get("data_sha256"):
            raise StoreError(
                f"the {config.data} files are not those that {self.path} began with (their contents differ). "
                "Point --data-dir at the same copy, or use another --runs directory."
            )
        newest = (before.get("resumed") or [before])[-1]
        changed = [name for name in ("faudit", "commit", "torch", "cpu") if newest.get(name) != environment.get(name)]
        if changed:
            write_json(self.path / "env.json", {**before, "resumed": [*before.get("resumed", []), dict(environment)]})
        return [f"{name} was {newest.get(name)}, is {environment.get(name)}: results may differ" for name in changed]

    def must_hold(self, config: RunConfig) -> None:
        """Refuse a run that was made with other settings: the hash leaves out defaults, and defaults may change."""
        if self.config() != config:
            raise StoreError(
                f"{self.path} holds another configuration under the same name. Use another --runs directory."
            )

    def config(self) -> RunConfig:
        """What was asked of this run."""
        path = f"{self.path}/config.json"
        document = read_json(path, orjson.loads)
        found = document.get("format")
        if not isinstance(found, int) or found > FORMAT:
            raise StoreError(
                f"{path} has format {found!r}, this faudit reads up to {FORMAT}: "
                "it was made by a newer version. Upgrade faudit."
            )
        values = document.get("config")
        if not isinstance(values, dict):
            raise StoreError(f"{path} is damaged: expected an object under 'config', got {type(values).__name__}")
        try:
            return RunConfig.parse(values, where=path)
        except ConfigError as error:
            raise StoreError(f"{path} cannot be read: {'; '.join(str(error).splitlines())}") from None

    def environment(self) -> dict[str, Any]:
        return read_json(f"{self.path}/env.json")

    def outcome(self) -> dict[str, Any] | None:
        """What ``done.json`` or ``failed.json`` says; None while there is neither."""
        for name in ("done.json", "failed.json"):
            if self._has(name):
                return read_json(f"{self.path}/{name}", orjson.loads)
        return None

    def rows(self) -> list[Row]:
        """Every whole row; a last line cut short by a kill is not a row."""
        if not self._has("rows.jsonl"):
            return []
        with refusals(f"{self.path}/rows.jsonl"):
            data = contents(f"{self.path}/rows.jsonl")
        lines = data.split(b"\n")[:-1]  # what follows the last newline is torn
        try:
            return from_lines(lines)
        except (ValueError, RecursionError):  # one of them is damaged: say which
            pass
        rows = []
        for place, line in enumerate(lines, start=1):
            try:
                rows.append(from_line(line.decode("utf-8")))
            except (ValueError, RecursionError) as error:
                raise StoreError(
                    f"{self.rows_file}, line {place} is damaged: expected a row of JSON, got {error}"
                ) from None
        return rows

    def last_rows(self) -> list[Row]:
        """The last row alone, if every line looks like a row; else all of them, which names the line that is none."""
        with refusals(f"{self.path}/rows.jsonl"):
            lines = contents(f"{self.path}/rows.jsonl").split(b"\n")[:-1] if self._has("rows.jsonl") else []
        if all(line.startswith(b'{"epoch": ') and line.endswith(b"}") for line in lines):
            with suppress(ValueError, RecursionError):
                return from_lines(lines[-1:])
        return self.rows()

    def append(self, row: Row) -> None:
        """Add one row and wait until it is on disk."""
        with refusals(self.rows_file), open(self.rows_file, "ab") as file:
            file.write(to_line(row).encode())
            file.flush()
            os.fsync(file.fileno())

    def keep_rows(self, until: int) -> None:
        """Drop rows of epochs later than the checkpoint's, and a torn last line: the run writes them again."""
        rows = [row for row in self.rows() if row["epoch"] <= until]
        write_whole(self.rows_file, "".join(to_line(row) for row in rows).encode())

    def finish(self, summary: Mapping[str, Any]) -> None:
        write_json(self.path / "done.json", summary)

    def fail(self, reason: Mapping[str, Any]) -> None:
        write_json(self.path / "failed.json", reason)

    def try_again(self) -> None:
        """Make a failed run one that has not begun; why it failed stays in ``failed-before.json``."""
        with self.locked(), refusals(self.path):
            if (self.path / "failed.json").exists():  # else another process was here first
                self.checkpoint.unlink(missing_ok=True)  # first: killed here, the run has still failed
                os.replace(self.path / "failed.json", self.path / "failed-before.json")


def runs_in(store: Path) -> list[Run]:
    """Every run of a store, by name."""
    with refusals(store):
        if store.is_dir():
            return [Run(path) for path in sorted(store.iterdir()) if (path / "config.json").exists()]
    raise no_store(store)


def run_named(name: str, runs: Path) -> Run:
    """A run by its directory, or by its name in the store."""
    run = Run(Path(name) if (Path(name) / "config.json").exists() else runs / name)
    if run.status == Status.NEW:
        raise StoreError(unknown(f"run (in {runs})", name, [run.name for run in runs_in(runs)]))
    return run


def no_store(store: Path) -> StoreError:
    return StoreError(
        f"no run store at {store}: expected a directory of runs. Make one with `faudit train --runs {store}`."
    )
