"""Train a run on a node that does not see the driver's disk, and send updates back to the driver.

A task receives the files of a run, trains it in a temporary store, and sends updates with what is new. A row is sent at
once. A checkpoint is sent after it is written, at most once every ``CHECKPOINT_EVERY`` seconds. The last update holds
the files that say how the run ended. A node without a copy of the data asks the driver for one.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from faudit.config import RunConfig
from faudit.errors import ConfigError, DataError
from faudit.store.files import refusals, write_whole
from faudit.store.run import Run
from faudit.sweep.engine import Answer, answered, loaded

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset

CHECKPOINT_EVERY = 2.0  # least seconds between two checkpoints that are sent
HEADS, ENDS = ("env.json", "config.json"), ("done.json", "failed.json")
PREFIX, GRACE = "faudit-task-", 60.0  # a task's folder starts with it; seconds that a task has to take its lock
NEXT, NEEDS_DATA = "next", "needs data"  # answers from a task to its engine: more updates follow; send the data

Fetch = Callable[[], Mapping[str, Any]]  # gets the parts of a dataset from the object store


@dataclass(frozen=True)
class RunUpdate:
    """One message from a task: complete new files, and new rows. If ``afresh``, ``rows`` replaces all rows."""

    answer: Answer
    files: Mapping[str, bytes] = field(default_factory=dict)
    rows: bytes = b""
    afresh: bool = False


class Sender:
    """Collects what is new in a run since the last update."""

    def __init__(self, run: Run) -> None:
        self._run, self._rows, self._when = run, 0, time.monotonic()
        self._sent: dict[str, tuple[int, int]] = {}  # file name → inode and modification time of what was sent

    def update(self, answer: Answer, *, saved: bool) -> RunUpdate | None:
        """The next update, or None if nothing is new.

        It holds checkpoints if one was just ``saved``. The last update holds everything that was not sent yet.
        """
        last = answer.word != NEXT
        due = last or (saved and time.monotonic() - self._when >= CHECKPOINT_EVERY)
        kept = sorted(path.name for path in self._run.path.glob("epoch-*.safetensors")) if due else []
        names = [*HEADS, *kept, *([self._run.checkpoint.name] if due else ()), *(ENDS if last else ())]
        files = {name: data for name in names if (data := self._changed(name)) is not None}
        if due:
            self._when = time.monotonic()
        rows, afresh = self._new_rows(), not self._rows
        self._rows += len(rows)
        if not (files or rows or answer.remarks or last):
            return None
        return RunUpdate(answer, files, rows, afresh)

    def _changed(self, name: str) -> bytes | None:
        """The content of a file that has changed since it was sent. A changed file has a new inode."""
        path = self._run.path / name
        about = path.stat() if path.exists() else None
        if about is None or self._sent.get(name) == (about.st_ino, about.st_mtime_ns):
            return None
        self._sent[name] = (about.st_ino, about.st_mtime_ns)
        return path.read_bytes()

    def _new_rows(self) -> bytes:
        with suppress(FileNotFoundError), open(self._run.rows_file, "rb") as file:
            file.seek(self._rows)
            return file.read()
        return b""


def task_function() -> Any:
    """The function that a task runs.

    Ray pickles a nested function by value, not by name. So even a node without faudit can report its id.
    """

    def on_node(
        settings: Mapping[str, Any],
        files: Mapping[str, bytes],
        data_dir: str | None,
        sent: list[Any],
        store: str,
        places: Sequence[str],
    ) -> Iterator[str | RunUpdate]:
        import sys

        import ray

        yield ray.get_runtime_context().get_node_id()
        sys.path += [place for place in places if place not in sys.path]  # where the driver finds own members

        from faudit.sweep.run_update import train  # imported here, since Ray would pickle a name from the outer scope

        fetch = (lambda: ray.get(sent[0])) if sent else None
        yield from train(settings, files, data_dir, fetch, store)

    return on_node


def train(
    settings: Mapping[str, Any], files: Mapping[str, bytes], data_dir: str | None, fetch: Fetch | None, store: str
) -> Iterator[RunUpdate]:
    """Train one run to its end in a temporary store on this node. Messages name the driver's ``store`` instead."""
    config = RunConfig.parse(settings, where="sweep")
    remove_leftovers()
    with locked_folder() as folder:
        run = Run(folder / config.run_id)
        run.path.mkdir()
        for name, data in files.items():
            (run.path / name).write_bytes(data)
        try:
            dataset = loaded(config.data, Path(data_dir) if data_dir else None)
        except DataError:
            if fetch is None:
                yield RunUpdate(Answer(NEEDS_DATA))
                return
            dataset = unpacked(config.data, fetch)
        except ConfigError as error:  # an own dataset that this node does not have
            yield RunUpdate(Answer("refused", str(error)))
            return
        for update in updates(config, run, dataset):
            yield with_driver_paths(update, str(folder), store)


def updates(config: RunConfig, run: Run, dataset: Dataset) -> Iterator[RunUpdate]:
    """Train, and yield an update after each row and checkpoint."""
    from faudit.train import writes

    steps, sender, over = writes(config, run, dataset=dataset), Sender(run), object()
    step: object = None

    def advance(_: RunConfig) -> str:
        nonlocal step
        step = next(steps, over)
        return ""

    while step is not over:
        answer = answered(config, advance)
        if answer.word not in ("ended", "raised"):
            yield RunUpdate(answer)
            return
        if answer.word == "ended" and step is not over:
            answer = replace(answer, word=NEXT)
        update = sender.update(answer, saved=step is None)
        if update:
            yield update
        if answer.word == "raised":
            return


def with_driver_paths(update: RunUpdate, folder: str, store: str) -> RunUpdate:
    """An update whose messages name the driver's files, not the copies here, unless this node's disk failed."""
    word, text, remarks = update.answer.word, update.answer.text, update.answer.remarks
    if word == "disk":
        return update
    told = Answer(word, text.replace(folder, store), tuple(said.replace(folder, store) for said in remarks))
    return replace(update, answer=told)


@contextmanager
def locked_folder() -> Iterator[Path]:
    """A temporary folder with a lock. The lock is free when this process ends for any reason."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, filelock.FileLock(Path(folder) / "lock"):
        yield Path(folder)


def remove_leftovers() -> None:
    """Remove the folders of killed tasks: those with ``PREFIX`` that belong to this user and whose lock is free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # already gone, another user's, no folder, or its lock is held
            about, lock = folder.lstat(), (folder / "lock").lstat()
            ours = stat.S_ISDIR(about.st_mode) and stat.S_ISREG(lock.st_mode) and about.st_uid == os.getuid()
            if ours and time.time() - lock.st_mtime >= GRACE:
                with filelock.FileLock(folder / "lock", timeout=0):
                    shutil.rmtree(folder)


def write_down(update: RunUpdate, run: Run) -> None:
    """Write an update in the order of a trainer: rows, then the checkpoint, then done.json or failed.json."""
    for name in [name for name in HEADS if name in update.files]:
        write_whole(run.path / name, update.files[name])
    if update.afresh:
        write_whole(run.rows_file, update.rows)
    elif update.rows:
        with refusals(run.rows_file), open(run.rows_file, "ab") as file:
            file.write(update.rows)
            file.flush()
            os.fsync(file.fileno())
    for name in [name for name in update.files if name not in HEADS]:
        write_whole(run.path / name, update.files[name])


UNPACKED: dict[str, Dataset] = {}  # datasets of this worker process, which serves one driver


def parts_of(dataset: Dataset) -> dict[str, Any]:
    """A dataset as arrays and plain values, which Ray's object store keeps without pickling."""
    values = {entry.name: getattr(dataset, entry.name) for entry in fields(dataset)}
    return {name: value.numpy() if hasattr(value, "numpy") else value for name, value in values.items()}


def unpacked(name: str, fetch: Fetch) -> Dataset:
    """The dataset rebuilt from its parts. Copied once per process, since the object store is read-only."""
    import torch

    from faudit.data.dataset import Dataset

    if name not in UNPACKED:
        values: dict[str, Any] = {
            key: torch.from_numpy(part.copy()) if hasattr(part, "dtype") else part for key, part in fetch().items()
        }
        UNPACKED[name] = Dataset(**values)
    return UNPACKED[name]
