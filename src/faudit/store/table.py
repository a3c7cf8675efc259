"""Every row of every run as one flat table, a CSV or a Parquet file, with the run's settings beside it.

Runs are read twice, first for the columns that they have among them, then to be written: no more than a few of them
are ever in memory. A list (one number a tap or block) is a list in Parquet and a column per place (``gamma[2]``) in
CSV, a list of lists likewise (``gamma_quantiles[2][0]``). What was not measured is null, or an empty cell. A run whose
rows hold anything but numbers, or a list where most runs have a number, is damaged: it is named and left out.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.errors import ConfigError, StoreError
from faudit.store.files import replacing
from faudit.store.index import Entry, entries, matches
from faudit.store.rows import Row
from faudit.store.run import Run

TOGETHER = 256  # runs written at a time into a Parquet file
NUMBERS = {int, float}  # a column of both is of floats
EXACT = 2**53  # whole numbers up to here are floats too
DEEP = 2  # levels of lists in a row's entry


@dataclass
class Column:
    """What a column holds: a kind of value, and how many of them a cell has at most at each level of its lists."""

    kind: type | None = None
    places: list[int] = field(default_factory=list)

    def meet(self, value: Any, level: int = 0) -> bool:
        """Take one more value into account; whether it goes with those before it."""
        if isinstance(value, list):
            if level == len(self.places):
                if self.kind:
                    return False
                self.places.append(0)
            self.places[level] = max(self.places[level], len(value))
            return all(self.meet(one, level + 1) for one in value)
        if value is not None:
            kinds = {type(value), self.kind or type(value)}
            if level < len(self.places) or (len(kinds) > 1 and kinds != NUMBERS):
                return False
            self.kind = float if kinds == NUMBERS else type(value)
        return True

    def example(self, level: int = 0) -> Any:
        """A value that takes all the places of the column."""
        if level == len(self.places):
            return self.kind() if self.kind else None
        return [self.example(level + 1)] * self.places[level]

    def __str__(self) -> str:
        return "lists of " * len(self.places) + {bool: "truth values", str: "text"}.get(self.kind or int, "numbers")


@dataclass
class Flat:
    """The runs that were asked for, and the columns of their rows."""

    runs: list[Entry]
    columns: dict[str, Column] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # rows of each run when the columns were counted
    damaged: list[str] = field(default_factory=list)

    def survey(self) -> None:
        """Which columns there are; a run that cannot be read, or not beside the others, is left out and told of."""
        alike: dict[str, tuple[dict[str, Column], list[Entry]]] = {}  # by columns: few, however many the runs
        for entry in self.runs:
            run = Run(Path(entry["run"]))
            try:
                rows = run.rows()
                columns = columns_of(entry, rows)
            except StoreError as error:
                self.damaged.append(str(error))
            except ValueError as error:
                self.damaged.append(f"{run.rows_file} is damaged: {error}")
            else:
                self.counts[entry["run"]] = len(rows)
                alike.setdefault(repr(columns), (columns, []))[1].append(entry)
        for columns, runs in sorted(alike.values(), key=lambda group: -len(group[1])):  # most runs are right
            wider = deepcopy(self.columns)
            odd = stranger({name: column.example() for name, column in columns.items()}, wider)
            if odd is None:
                self.columns = wider
                continue
            told = f"{odd!a}: expected {wider[odd]}, as most runs have, got {columns[odd]}"
            for entry in runs:
                del self.counts[entry["run"]]
                self.damaged.append(f"{entry['run']}/rows.jsonl is damaged: {told}")
        self.runs = [entry for entry in self.runs if entry["run"] in self.counts]

    def rows(self, runs: Sequence[Entry]) -> Iterator[dict[str, Any]]:
        for entry in runs:
            for row in Run(Path(entry["run"])).rows()[: self.counts[entry["run"]]]:  # one under way may have grown
                yield cells(entry, row)


def columns_of(entry: Entry, rows: Sequence[Row]) -> dict[str, Column]:
    """The columns of one run; raises ValueError where its rows are not made of numbers, or not all alike."""
    columns: dict[str, Column] = {}
    if rows:
        stranger(cells(entry, {}), columns)
    for row in rows:
        wrong = next((name for name, value in row.items() if not (name.isprintable() and numeric(value))), None)
        odd = stranger(row, columns) if wrong is None else wrong
        if odd is not None:
            expected = columns[odd] if wrong is None else "numbers"
            raise ValueError(f"epoch {row['epoch']}, {odd!a}: expected {expected}, got {str(row[odd])[:40]!a}")
    return columns


def stranger(line: Mapping[str, Any], columns: dict[str, Column]) -> str | None:
    """Take one more line into account; its first entry that does not go with those before it, if one does not."""
    return next((name for name, value in line.items() if not columns.setdefault(name, Column()).meet(value)), None)


def numeric(value: Any, level: int = 0) -> bool:
    """Whether a value is one of those that a row is made of: numbers that every format can hold, and lists of them."""
    if isinstance(value, list):
        return level < DEEP and all(numeric(one, level + 1) for one in value)
    return value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= EXACT)


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
        told = f"{runs} holds no row of a run that was asked for: nothing was exported"
        raise StoreError("\n".join([*damaged, *flat.damaged, told]))
    with replacing(out) as beside:
        write(flat, beside)
    return sum(flat.counts.values()), [*damaged, *flat.damaged]


def csv_writer() -> Callable[[Flat, Path], None]:
    return write_csv


def write_csv(flat: Flat, path: Path) -> None:
    heads = [
        name + "".join(f"[{place}]" for place in places)
        for name, column in flat.columns.items()
        for places in itertools.product(*map(range, column.places))
    ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, heads, restval="")
        table.writeheader()
        for row in flat.rows(flat.runs):
            table.writerow({head: one for name, value in row.items() for head, one in spread(name, value)})


def spread(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A cell's values, each with its own head; what was not measured has none, since it may stand for a list."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from spread(f"{name}[{place}]", one)
    elif value is not None:
        yield name, value


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
            for _ in column.places:
                kind = pyarrow.list_(kind)
            fields.append((name, kind))
        schema = pyarrow.schema(fields)
        with pyarrow.parquet.ParquetWriter(path, schema) as file:
            for start in itertools.count(0, TOGETHER):
                rows = list(flat.rows(flat.runs[start : start + TOGETHER]))
                if not rows:
                    break
                file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))

    return write_parquet


WRITERS: dict[str, Callable[[], Callable[[Flat, Path], None]]] = {"csv": csv_writer, "parquet": parquet_writer}
