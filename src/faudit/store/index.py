"""What every run of a store says of itself, fast for thousands: a database beside them remembers.

The run directories are the truth. ``index.sqlite`` in the store remembers the overview of runs that have ended, each
with the size and time of the files it was read from; whatever differs is read again. It may be absent, damaged,
outdated or impossible to write: then the runs are read, and nobody notices but for the time.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson

from faudit import __version__
from faudit.config import KEYS, SETTINGS, attribute, switch
from faudit.errors import ConfigError, StoreError
from faudit.registry import unknown
from faudit.store.files import refusals
from faudit.store.run import ENDED, Run, Status, no_store
from faudit.store.summary import overview

FORMAT = 1  # of the database; another one's entries are read again
FROM = 64  # runs: fewer are read as fast as remembered
FILES = ("config.json", "env.json", "rows.jsonl", "done.json", "failed.json")
ENDS = slice(3, 5)  # the two of them that say that a run has ended
STATES = (*ENDED, Status.RUNNING, Status.STOPPED)

Overview = dict[str, Any]
Known = dict[str, tuple[str, bytes, int]]  # name → marks, the entry as JSON, its checksum


def entries(store: Path) -> tuple[list[Overview], list[str]]:
    """The overview of every run, by name; what cannot be read, or is there twice, is told of and left out."""
    marks, place = marked(store), str(store)
    path = store / "index.sqlite"
    known = remembered(path) if len(marks) >= FROM else {}
    found, damaged, fresh = [], [], {}
    for name, mark in marks.items():
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
    told = [*damaged, *(copy_of(path, other) for path, other in twice.items())]
    return [entry for entry in found if entry["run"] not in twice], told


def is_text(name: str) -> bool:
    """Whether a file's name is UTF-8, as a database and strict JSON want it."""
    return name.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in name)


def copies(found: Mapping[str, str]) -> dict[str, str]:
    """Directories that hold a run which another one holds already, each with that other one; from path → run id.

    The directory that is named after the run counts, or else the first one. An import is no copy of the run itself.
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
    return f"{path} is a copy of {os.path.basename(other)}, which is read once. Move the copy out of the store."


def marked(store: Path) -> dict[str, str]:
    """Every run's name with the marks of its files; nothing for one that has not ended: its state is not in them."""
    with refusals(store):
        if not store.is_dir():
            raise no_store(store)
        names = sorted(os.listdir(store))
    marks = {}
    for name in names:
        signs = [sign(f"{store}/{name}/{file}") for file in FILES]
        if signs[0]:
            marks[name] = " ".join((__version__, str(FORMAT), *signs)) if any(signs[ENDS]) else ""
    return marks


def sign(path: str) -> str:
    """A file's size and time of change; nothing where there is no such file."""
    try:
        about = os.stat(path)
    except OSError:
        return ""
    return f"{about.st_size}:{about.st_mtime_ns}"


def recalled(known: tuple[str, bytes, int] | None, mark: str) -> Overview | None:
    """What is remembered of a run, if it is of these very files and whole."""
    if known is None or not mark or known[0] != mark or zlib.crc32(known[1]) != known[2]:
        return None
    entry: Overview = orjson.loads(known[1])
    return entry


def remembered(path: Path) -> Known:
    """What the database holds; nothing where there is none that can be read."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.5)) as database:
            rows = database.execute("SELECT name, marks, entry, crc FROM runs").fetchall()
    except sqlite3.Error:
        return {}
    return {name: (mark, entry, crc) for name, mark, entry, crc in rows if isinstance(entry, bytes)}


def remember(path: Path, fresh: Mapping[str, tuple[str, bytes]], gone: Iterable[str]) -> None:
    """Put entries into the database and take some out; a database that is damaged is made anew."""
    try:
        put(path, fresh, gone)
    except sqlite3.OperationalError as error:
        if "no such column" in str(error) or "has no column" in str(error):
            renew(path, fresh)  # else another process writes it, or nobody may
    except sqlite3.Error:
        renew(path, fresh)


def renew(path: Path, fresh: Mapping[str, tuple[str, bytes]]) -> None:
    with suppress(sqlite3.Error, OSError):
        path.unlink(missing_ok=True)
        put(path, fresh, ())


def put(path: Path, fresh: Mapping[str, tuple[str, bytes]], gone: Iterable[str]) -> None:
    rows = [(name, mark, entry, zlib.crc32(entry)) for name, (mark, entry) in fresh.items()]
    with closing(sqlite3.connect(path, timeout=1.0)) as database, database:
        database.execute("PRAGMA journal_mode = MEMORY")  # a kill may damage it: then it is made anew
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, marks TEXT, entry BLOB, crc INTEGER)")
        database.executemany("INSERT OR REPLACE INTO runs (name, marks, entry, crc) VALUES (?, ?, ?, ?)", rows)
        database.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in gone])


def conditions(words: Sequence[str]) -> dict[str, list[Any]]:
    """``KEY=VALUE`` words as what a run must have: several keys all, several values of one key any of them."""
    wanted: dict[str, list[Any]] = {}
    problems = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            problems.append(f"--where: expected KEY=VALUE, got {word!r}")
        elif key == "status" and text not in STATES:
            problems.append(f"--where {unknown('status', text, STATES)}")
        elif key == "status":
            wanted.setdefault(key, []).append(text)
        elif key not in KEYS:
            problems.append(f"--where {unknown('setting', key, [*KEYS, 'status'])}")
        else:
            try:
                wanted.setdefault(key, []).append(value_of(key, text))
            except ValueError as error:
                problems.append(f"--where {key}: expected {error}, got {text!r}")
    if problems:
        raise ConfigError("\n".join(problems))
    return wanted


def value_of(key: str, text: str) -> Any:
    """A setting's value from the command line, as an entry's ``config`` has it."""
    parse = SETTINGS[attribute(key)]["parse"]
    value = parse({"true": True, "false": False}.get(text, text) if parse is switch else text)
    return list(value) if isinstance(value, tuple) else value


def matches(entry: Overview, wanted: Mapping[str, list[Any]]) -> bool:
    """Whether a run is one that was asked for."""
    config = entry["config"]
    return all((entry[key] if key == "status" else config[key]) in values for key, values in wanted.items())
