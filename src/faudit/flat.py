"""Every row of every run as one flat table, a CSV or a Parquet file, with the run's settings beside it.  (no torch)

Runs are read twice, first for the columns that they have among them, then to be written: no more than a few of them
are ever in memory. A list (one number a tap or block) is a list in Parquet and a column per place (``gamma[2]``) in
CSV. What was not measured is null, or an empty cell.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.errors import ConfigError, StoreError
from faudit.index import Entry, entries, matches
from faudit.rows import Row
from faudit.store import Run, refusals

TOGETHER = 256  # runs written at a time into a Parquet file
KINDS = (bool, int, float, str)  # of a column; numbers of two kinds are the wider one


@dataclass
class Column:
    """What a column holds: a kind of value, and how many of them a cell has at most (None: it is no list)."""

    kind: type | None = None
    places: int | None = None

    def meet(self, value: Any) -> None:
        """Take one more value into account."""
        if isinstance(value, list):
            self.places = max(self.places or 0, len(value))
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                self.kind = type(one) if self.kind is None else max(self.kind, type(one), key=KINDS.index)


@dataclass
class Flat:
    """The runs that were asked for, and the columns of their rows."""

    runs: list[Entry]
    columns: dict[str, Column] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # rows of each run when the columns were counted
    damaged: list[str] = field(default_factory=list)

    def survey(self) -> None:
        """Which columns there are; a run that cannot be read is left out and told of."""
        for entry in list(self.runs):
            try:
                rows = Run(Path(entry["run"])).rows()
            except StoreError as error:
                self.damaged.append(str(error))
                self.runs.remove(entry)
                continue
            self.counts[entry["run"]] = len(rows)
            for row in rows:
                for name, value in cells(entry, row).items():
                    self.columns.setdefault(name, Column()).meet(value)

    def rows(self, runs: Sequence[Entry]) -> Iterator[dict[str, Any]]:
        for entry in runs:
            for row in Run(Path(entry["run"])).rows()[: self.counts[entry["run"]]]:  # one under way may have grown
                yield cells(entry, row)


def cells(entry: Entry, row: Row) -> dict[str, Any]:
    """One line of the table."""
    return {"run_id": entry["run_id"], "status": entry["status"], **entry["config"], **row}


def export(runs: Path, out: Path, *, form: str, wanted: Mapping[str, list[Any]]) -> tuple[int, list[str]]:
    """Write the rows of the runs that match; how many, and what is wrong with runs that were left out."""
    write = WRITERS[form]()
    found, damaged = entries(runs)
    flat = Flat([entry for entry in found if matches(entry, wanted)])
    flat.survey()
    if not flat.columns:
        raise StoreError(f"{runs} holds no row of a run that was asked for: nothing was exported")
    with replacing(out) as beside:
        write(flat, beside)
    return sum(flat.counts.values()), [*damaged, *flat.damaged]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write that takes its place once it is whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with refusals(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def csv_writer() -> Callable[[Flat, Path], None]:
    return write_csv


def write_csv(flat: Flat, path: Path) -> None:
    heads: list[str] = []
    for name, column in flat.columns.items():
        heads += [name] if column.places is None else [f"{name}[{place}]" for place in range(column.places)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, heads, restval="")
        table.writeheader()
        for row in flat.rows(flat.runs):
            line: dict[str, Any] = {}
            for name, value in row.items():
                if isinstance(value, list):
                    line |= {f"{name}[{place}]": one for place, one in enumerate(value)}
                else:
                    line[name] = value
            table.writerow(line)


def parquet_writer() -> Callable[[Flat, Path], None]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(
            "--format parquet needs the package pyarrow, which is not installed. "
            "Install it with `pip install 'faudit[parquet]'`, or use --format csv."
        ) from None
    names = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}

    def write_parquet(flat: Flat, path: Path) -> None:
        fields = []
        for name, column in flat.columns.items():
            kind = names[column.kind or float]
            fields.append((name, kind if column.places is None else pyarrow.list_(kind)))
        schema = pyarrow.schema(fields)
        with pyarrow.parquet.ParquetWriter(path, schema) as file:
            for start in itertools.count(0, TOGETHER):
                rows = list(flat.rows(flat.runs[start : start + TOGETHER]))
                if not rows:
                    break
                file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))

    return write_parquet


WRITERS: dict[str, Callable[[], Callable[[Flat, Path], None]]] = {"csv": csv_writer, "parquet": parquet_writer}
