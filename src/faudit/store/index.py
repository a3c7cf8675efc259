"""The overview of every run of a store, cached in a database so that it is fast for thousands of runs.

``index.sqlite`` in the store caches the overviews of ended runs, each with the size and modification time of its files.
If these differ, the run directory is read again. The database may be missing, damaged, outdated or read-only; then the
result is the same, only slower.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson

from faudit import __version__
from faudit.errors import StoreError
from faudit.store.counts import counted
from faudit.store.files import refusals
from faudit.store.run import ENDED, Run, no_store
from faudit.store.summary import overview

FORMAT = 3  # version of the entries; others are read again
FROM = 64  # runs; for fewer, the database saves no time
FILES = ("config.json", "env.json", "rows.jsonl", "done.json", "failed.json")
ROWS, ENDS = 2, slice(3, 5)  # the two files that end a run

Overview = dict[str, Any]
Known = dict[str, tuple[str, bytes, int]]  # name → marks, the entry as JSON, its checksum


def entries(store: Path) -> tuple[list[Overview], list[str]]:
    """The overviews of all runs by name, and a message for each run that is left out: damaged, or a copy."""
    marks, place = marked(store), str(store)
    path = store / "index.sqlite"
    known = remembered(path) if len(marks) >= FROM else {}
    found, damaged, fresh = [], [], {}
    for name, mark in counted(marks.items(), lambda pair: pair[0]):
        entry = recalled(known.get(name), mark)
        if entry is None:
            try:
                entry = overview(Run(store / name))
            except StoreError as error:
                damaged.append(str(error))
                continue
            if mark and entry["status"] in ENDED and is_text(name):
                fresh[name] = mark, orjson.dumps({**entry, "run": name})
        entry["run"] = f"{place}/{name}"
        found.append(entry)
    twice = copies({entry["run"]: entry["run_id"] for entry in found})
    gone = known.keys() - marks.keys()
    if len(marks) >= FROM and (fresh or gone):
        remember(path, fresh, gone)
    messages = [*damaged, *(copy_of(path, other) for path, other in twice.items())]
    return [entry for entry in found if entry["run"] not in twice], messages


def is_text(name: str) -> bool:
    """Whether a file name is UTF-8, which the database and strict JSON need."""
    return name.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in name)


def copies(found: Mapping[str, str]) -> dict[str, str]:
    """Directories that hold a copy of a run, each with the directory of the original; ``found`` maps path → run id.

    The original is the directory named after the run, or else the first one. An import is not a copy of its run.
    """
    groups: dict[str, list[str]] = {}
    for path, run_id in found.items():
        name = os.path.basename(path)
        groups.setdefault(f"imported-{run_id}" if name.startswith("imported-") else run_id, []).append(path)
    twice = {}
    for name, paths in groups.items():
        first = next((path for path in paths if os.path.basename(path) == name), paths[0])
        twice.update({path: first for path in paths if path != first})
    return twice


def copy_of(path: str, other: str) -> str:
    return f"{path} is a copy of {os.path.basename(other)} and is left out. Move the copy out of the store."


def marked(store: Path) -> dict[str, str]:
    """Every run's name with the marks of its files; empty for a run that has not ended, since its status may change."""
    with refusals(store):
        if not store.is_dir():
            raise no_store(store)
        names = sorted(os.listdir(store))
    marks = {}
    for name in names:
        signs = [sign(f"{store}/{name}/{file}") for file in FILES]
        if signs[0] or signs[ROWS]:  # rows without a configuration are a run that lost it
            marks[name] = " ".join((__version__, str(FORMAT), *signs)) if any(signs[ENDS]) else ""
    return marks


def sign(path: str) -> str:
    """The size and modification time of a file; empty if it does not exist."""
    try:
        about = os.stat(path)
    except OSError:
        return ""
    return f"{about.st_size}:{about.st_mtime_ns}"


def recalled(known: tuple[str, bytes, int] | None, mark: str) -> Overview | None:
    """The cached overview of a run, if its marks and checksum match."""
    if known is None or not mark or known[0] != mark or zlib.crc32(known[1]) != known[2]:
        return None
    entry: Overview = orjson.loads(known[1])
    return entry


def remembered(path: Path) -> Known:
    """The entries of the database; empty if it cannot be read."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.5)) as database:
            rows = database.execute("SELECT name, marks, entry, crc FROM runs").fetchall()
    except sqlite3.Error:
        return {}
    return {name: (mark, entry, crc) for name, mark, entry, crc in rows if isinstance(entry, bytes)}


def remember(path: Path, fresh: Mapping[str, tuple[str, bytes]], gone: Iterable[str]) -> None:
    """Add and delete entries of the database; a damaged database is created again."""
    try:
        put(path, fresh, gone)
    except sqlite3.OperationalError as error:
        if "no such column" in str(error) or "has no column" in str(error):
            renew(path, fresh)  # other errors: another process writes it, or it is read-only
    except sqlite3.Error:
        renew(path, fresh)


def renew(path: Path, fresh: Mapping[str, tuple[str, bytes]]) -> None:
    with suppress(sqlite3.Error, OSError):
        path.unlink(missing_ok=True)
        put(path, fresh, ())


def put(path: Path, fresh: Mapping[str, tuple[str, bytes]], gone: Iterable[str]) -> None:
    rows = [(name, mark, entry, zlib.crc32(entry)) for name, (mark, entry) in fresh.items()]
    with closing(sqlite3.connect(path, timeout=1.0)) as database, database:
        database.execute("PRAGMA journal_mode = MEMORY")  # a kill may damage it; it is then created again
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, marks TEXT, entry BLOB, crc INTEGER)")
        database.executemany("INSERT OR REPLACE INTO runs (name, marks, entry, crc) VALUES (?, ?, ?, ?)", rows)
        database.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in gone])
