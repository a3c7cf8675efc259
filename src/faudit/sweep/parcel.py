"""A run trained on a node without the driver's disk: what it is sent, and the parcels it sends back.  (no torch)

Files come in, the run is trained in a temporary store, and with every row a parcel leaves with what is new: rows at
once, the checkpoint every few seconds, the files that say how the run ended last. A node that has no copy of the data
says so, and is sent one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.config import RunConfig
from faudit.errors import DataError
from faudit.store import Run
from faudit.sweep.engine import Answer, answered, loaded

if TYPE_CHECKING:
    from faudit.data.dataset import Dataset

CHECKPOINT_EVERY = 2.0  # seconds between two checkpoints on their way to the driver
HEADS, ENDS = ("env.json", "config.json"), ("done.json", "failed.json")
NEEDS_DATA = "needs data"  # an answer between a task and its engine


@dataclass(frozen=True)
class Parcel:
    """What a task sends: new files whole, new rows, all of them where ``afresh``; and at the end its answer."""

    files: dict[str, bytes]
    rows: bytes = b""
    afresh: bool = False
    remarks: tuple[str, ...] = ()
    answer: Answer | None = None


class Sender:
    """What of a run is new since the last parcel."""

    def __init__(self, run: Run) -> None:
        self._run, self._rows, self._sent, self._when = run, 0, set[str](), time.monotonic()

    def parcel(self, answer: Answer) -> Parcel:
        """One more; everything that is left with the last one."""
        last = answer.word != "next"
        due = last or time.monotonic() - self._when >= CHECKPOINT_EVERY
        kept = [path.name for path in sorted(self._run.path.glob("epoch-*.safetensors"))] if due else []
        names = [name for name in (*HEADS, *kept) if name not in self._sent]
        names += [self._run.checkpoint.name] if due else []
        names += ENDS if last else ()
        files = {name: (self._run.path / name).read_bytes() for name in names if (self._run.path / name).exists()}
        if due:
            self._when = time.monotonic()
        rows, afresh = self._run.rows_file.read_bytes()[self._rows :], not self._rows
        self._rows += len(rows)
        self._sent |= files.keys()
        return Parcel(files, rows, afresh, answer.remarks, answer if last else None)


def train(settings: Mapping[str, Any], files: Mapping[str, bytes], data_dir: str | None, sent: Any) -> Iterator[Parcel]:
    """A task: train one run to its end in a temporary store of this node, a parcel with every row."""
    config = RunConfig.parse(settings, where="sweep")
    with tempfile.TemporaryDirectory(prefix="faudit-") as folder:
        run = Run(Path(folder) / config.run_id)
        run.path.mkdir()
        for name, data in files.items():
            (run.path / name).write_bytes(data)
        try:
            dataset = loaded(config.data, Path(data_dir) if data_dir else None)
        except DataError:
            if sent is None:
                yield Parcel({}, answer=Answer(NEEDS_DATA))
                return
            dataset = unpacked(config.data, sent)
        yield from parcels(config, run, dataset)


def parcels(config: RunConfig, run: Run, dataset: Dataset) -> Iterator[Parcel]:
    """Train, a row at a time, and send what each brought."""
    from faudit.train import stream

    rows, sender, more = stream(config, run, dataset=dataset), Sender(run), [True]

    def advance(_: RunConfig) -> str:
        more[0] = next(rows, None) is not None
        return ""

    while more[0]:
        answer = answered(config, advance)
        if answer.word != "ended":
            yield Parcel({}, answer=answer)
            return
        yield sender.parcel(Answer("next", remarks=answer.remarks) if more[0] else answer)


UNPACKED: dict[str, Dataset] = {}  # of this worker process, which serves one driver


def parts_of(dataset: Dataset) -> dict[str, Any]:
    """A dataset as arrays and plain values, which Ray's object store holds without pickling."""
    values = {entry.name: getattr(dataset, entry.name) for entry in fields(dataset)}
    return {name: value.numpy() if hasattr(value, "numpy") else value for name, value in values.items()}


def unpacked(name: str, parts: Mapping[str, Any]) -> Dataset:
    """The dataset again; copied once a process, since what the object store lends may not be written."""
    import torch

    from faudit.data.dataset import Dataset

    if name not in UNPACKED:
        values: dict[str, Any] = {
            key: torch.from_numpy(part.copy()) if hasattr(part, "dtype") else part for key, part in parts.items()
        }
        UNPACKED[name] = Dataset(**values)
    return UNPACKED[name]
