"""A run trained on a node without the driver's disk: what it is sent, and the parcels it sends back.

Files come in, the run is trained in a temporary store, and parcels leave with what is new: a row at once, a checkpoint
once it is written if the last one sent is some seconds old, the files that say how the run ended last. A node that has
no copy of the data says so, and is sent one.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from faudit.config import RunConfig
from faudit.errors import DataError
from faudit.store.files import refusals, write_whole
from faudit.store.run import Run
from faudit.sweep.engine import Answer, answered, loaded

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset

CHECKPOINT_EVERY = 2.0  # seconds between two checkpoints on their way to the driver
HEADS, ENDS = ("env.json", "config.json"), ("done.json", "failed.json")
PREFIX, GRACE = "faudit-task-", 60.0  # of a task's folder; seconds in which it may not have taken its lock yet
NEXT, NEEDS_DATA = "next", "needs data"  # answers between a task and its engine: there is more to come; send the data

Fetch = Callable[[], Mapping[str, Any]]  # takes the parts of a dataset out of the object store


@dataclass(frozen=True)
class RunUpdate:
    """What a task sends: new files whole, new rows, or all of them where ``afresh``."""

    answer: Answer
    files: Mapping[str, bytes] = field(default_factory=dict)
    rows: bytes = b""
    afresh: bool = False


class Sender:
    """What of a run is new since the last parcel."""

    def __init__(self, run: Run) -> None:
        self._run, self._rows, self._when = run, 0, time.monotonic()
        self._sent: dict[str, tuple[int, int]] = {}  # which file it was, by name

    def parcel(self, answer: Answer, *, saved: bool) -> RunUpdate | None:
        """One more if there is anything new; checkpoints if one was just ``saved``; all that is left with the last."""
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
        """A file that was not sent as it is now: it is replaced whole, so what is new is another file."""
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


def by_value() -> Any:
    """What a task runs.

    A function inside a function travels whole, not by name. So even a node without faudit can say which node it is.
    """

    def on_node(
        settings: Mapping[str, Any], files: Mapping[str, bytes], data_dir: str | None, sent: list[Any], store: str
    ) -> Iterator[str | RunUpdate]:
        import ray

        yield ray.get_runtime_context().get_node_id()

        from faudit.sweep.update import train  # here: what a function takes from around it travels with it

        fetch = (lambda: ray.get(sent[0])) if sent else None
        yield from train(settings, files, data_dir, fetch, store)

    return on_node


def train(
    settings: Mapping[str, Any], files: Mapping[str, bytes], data_dir: str | None, fetch: Fetch | None, store: str
) -> Iterator[RunUpdate]:
    """A task: train one run to its end in a temporary store of this node, in whose place the driver reads ``store``."""
    config = RunConfig.parse(settings, where="sweep")
    sweep_up()
    with own_folder() as folder:
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
        for parcel in parcels(config, run, dataset):
            yield seen_from(parcel, str(folder), store)


def parcels(config: RunConfig, run: Run, dataset: Dataset) -> Iterator[RunUpdate]:
    """Train, and send what each row and checkpoint brought."""
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
        parcel = sender.parcel(answer, saved=step is None)
        if parcel:
            yield parcel
        if answer.word == "raised":
            return


def seen_from(parcel: RunUpdate, folder: str, store: str) -> RunUpdate:
    """A parcel whose words name the driver's files, not the copies here; unless it is this node's disk that failed."""
    word, text, remarks = parcel.answer.word, parcel.answer.text, parcel.answer.remarks
    if word == "disk":
        return parcel
    told = Answer(word, text.replace(folder, store), tuple(said.replace(folder, store) for said in remarks))
    return replace(parcel, answer=told)


@contextmanager
def own_folder() -> Iterator[Path]:
    """A temporary folder with a lock, which goes with this process whatever ends it."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, filelock.FileLock(Path(folder) / "lock"):
        yield Path(folder)


def sweep_up() -> None:
    """Remove what tasks left that were killed: folders of this user and of that name whose lock nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone, somebody else's, or no such folder; a lock that is held is one of them
            about, lock = folder.lstat(), (folder / "lock").lstat()
            ours = stat.S_ISDIR(about.st_mode) and stat.S_ISREG(lock.st_mode) and about.st_uid == os.getuid()
            if ours and time.time() - lock.st_mtime >= GRACE:
                with filelock.FileLock(folder / "lock", timeout=0):
                    shutil.rmtree(folder)


def write_down(parcel: RunUpdate, run: Run) -> None:
    """Write down what came, as a trainer would: rows before the checkpoint, what says that the run ended last."""
    for name in [name for name in HEADS if name in parcel.files]:
        write_whole(run.path / name, parcel.files[name])
    if parcel.afresh:
        write_whole(run.rows_file, parcel.rows)
    elif parcel.rows:
        with refusals(run.rows_file), open(run.rows_file, "ab") as file:
            file.write(parcel.rows)
            file.flush()
            os.fsync(file.fileno())
    for name in [name for name in parcel.files if name not in HEADS]:
        write_whole(run.path / name, parcel.files[name])


UNPACKED: dict[str, Dataset] = {}  # of this worker process, which serves one driver


def parts_of(dataset: Dataset) -> dict[str, Any]:
    """A dataset as arrays and plain values, which Ray's object store holds without pickling."""
    values = {entry.name: getattr(dataset, entry.name) for entry in fields(dataset)}
    return {name: value.numpy() if hasattr(value, "numpy") else value for name, value in values.items()}


def unpacked(name: str, fetch: Fetch) -> Dataset:
    """The dataset again; copied once a process, since what the object store lends may not be written."""
    import torch

    from faudit.data.dataset import Dataset

    if name not in UNPACKED:
        values: dict[str, Any] = {
            key: torch.from_numpy(part.copy()) if hasattr(part, "dtype") else part for key, part in fetch().items()
        }
        UNPACKED[name] = Dataset(**values)
    return UNPACKED[name]
