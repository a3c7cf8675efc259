"""Export every row of every run as one table, CSV or Parquet, together with the run's settings.

Runs are read twice, first to find the columns and then to write them, so only a few runs are in memory at a time. The
type of a column comes from the declared setting or entry of that name. A list (one number per tap or block) is a list
in Parquet and one column per element (``gamma[2]``) in CSV. A list of lists is handled in the same way
(``gamma_quantiles[2][0]``). A value that was not measured is null or an empty cell. A run that cannot be read is
reported and left out.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.config import attribute, known
from faudit.errors import ConfigError, StoreError
from faudit.probes import NESTED
from faudit.store.files import replacing
from faudit.store.index import Overview, entries
from faudit.store.rows import ENTRIES, Row
from faudit.store.run import Run
from faudit.store.where import chosen

Progress = Callable[[int, int, str], None]  # (done, total, run)
TOGETHER = 256  # runs per write to a Parquet file
KINDS: dict[str, type] = {"number": float, "count": int, "flag": bool}


@dataclass
class Column:
    """A column: the type of its values, and the largest length at each level of its lists."""

    kind: type
    places: list[int] = field(default_factory=list)

    @classmethod
    def declared(cls, name: str, value: Any) -> Column:
        """The column of a setting, of an entry, or of the run id and status; of another setting by a value of it."""
        if entry := ENTRIES.in_row(name):
            return cls(KINDS[entry.kind], [0] * (0 if entry.shape == "scalar" else 2 if entry.shape in NESTED else 1))
        setting = known().get(attribute(name))
        default = setting.first.default if setting else value
        if isinstance(default, tuple | list):
            return cls(type(default[0]) if default and not setting else int, [0])
        return cls(type(default))

    def heads(self, name: str) -> list[str]:
        """The names of its columns if each element of a list has a column of its own."""
        return [
            name + "".join(f"[{place}]" for place in places) for places in itertools.product(*map(range, self.places))
        ]

    def widen(self, value: Any, level: int = 0) -> None:
        """Extend the lengths to fit one more value."""
        if isinstance(value, list):
            self.places[level] = max(self.places[level], len(value))
            for one in value if level + 1 < len(self.places) else ():
                self.widen(one, level + 1)


@dataclass
class Table:
    """The selected runs and the columns of their rows."""

    runs: list[Overview]
    columns: dict[str, Column] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # rows of each run at the time of ``survey``
    damaged: list[str] = field(default_factory=list)
    progress: Progress = field(default=lambda *_: None, repr=False)
    _written: int = 0

    def survey(self) -> None:
        """Find the columns, those of most runs first; a run that cannot be read is reported and left out."""
        alike: dict[tuple[str, ...], list[Overview]] = {}  # grouped by the names of their columns
        found: dict[str, Column] = {}
        self.progress(0, 2 * len(self.runs), "")
        for place, run in enumerate(self.runs, start=1):
            self.progress(place, 2 * len(self.runs), run["run_id"])
            try:
                rows = Run(Path(run["run"])).rows()
            except StoreError as error:
                self.damaged.append(str(error))
                continue
            self.counts[run["run"]] = len(rows)
            lines = [cells(run, row) for row in rows]
            alike.setdefault(tuple(dict.fromkeys(itertools.chain.from_iterable(lines))), []).append(run)
            for name, value in itertools.chain.from_iterable(line.items() for line in lines):
                if name not in found:
                    found[name] = Column.declared(name, value)
                found[name].widen(value)
        for names in sorted(alike, key=lambda names: -len(alike[names])):
            self.columns |= {name: found[name] for name in names}
        self.runs = [run for run in self.runs if run["run"] in self.counts]

    def rows(self, runs: Sequence[Overview]) -> Iterator[dict[str, Any]]:
        for run in runs:
            self._written += 1
            self.progress(len(self.runs) + self._written, 2 * len(self.runs), run["run_id"])
            for row in Run(Path(run["run"])).rows()[: self.counts[run["run"]]]:  # a running run may have more by now
                yield cells(run, row)


def cells(run: Overview, row: Row) -> dict[str, Any]:
    """One line of the table."""
    return {"run_id": run["run_id"], "status": run["status"], **run["config"], **row}


def export(
    runs: Path, out: Path, *, form: str, where: Sequence[str] = (), progress: Progress = lambda *_: None
) -> tuple[int, list[str]]:
    """Write the rows of matching runs; returns the number of rows, and a message for each run left out.

    Each run is read twice: to find the columns, and to write its rows. ``progress`` gets (done, total, run).
    """
    write = WRITERS[form]()
    found, damaged = entries(runs)
    table = Table(chosen(found, where, store=str(runs)), progress=progress)
    table.survey()
    if not table.columns:
        problem = f"{runs} holds no row of a selected run: nothing was exported"
        raise StoreError("\n".join([*damaged, *table.damaged, problem]))
    with replacing(out) as beside:
        write(table, beside)
    return sum(table.counts.values()), [*damaged, *table.damaged]


def csv_writer() -> Callable[[Table, Path], None]:
    return write_csv


def write_csv(table: Table, path: Path) -> None:
    heads = [head for name, column in table.columns.items() for head in column.heads(name)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, heads, restval="")
        lines.writeheader()
        for row in table.rows(table.runs):
            lines.writerow({head: one for name, value in row.items() for head, one in spread(name, value)})


def spread(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values of a cell, each with its column name; a null has none, because it may stand for a whole list."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from spread(f"{name}[{place}]", one)
    elif value is not None:
        yield name, value


def parquet_writer() -> Callable[[Table, Path], None]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(
            "--format parquet needs the package pyarrow, which is not installed. "
            "Install it with `pip install 'faudit[parquet]'`, or use --format csv."
        ) from None
    names = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}

    def write_parquet(table: Table, path: Path) -> None:
        fields = []
        for name, column in table.columns.items():
            kind = names[column.kind]
            for _ in column.places:
                kind = pyarrow.list_(kind)
            fields.append((name, kind))
        schema = pyarrow.schema(fields)
        with pyarrow.parquet.ParquetWriter(path, schema) as file:
            for start in itertools.count(0, TOGETHER):
                rows = list(table.rows(table.runs[start : start + TOGETHER]))
                if not rows:
                    break
                file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))

    return write_parquet


WRITERS: dict[str, Callable[[], Callable[[Table, Path], None]]] = {"csv": csv_writer, "parquet": parquet_writer}
