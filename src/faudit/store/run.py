"""The directory of a run: this module defines every file in it and how each is written.

    config.json  env.json       the settings and the environment; written first
    rows.jsonl                  one row per logged epoch, appended and flushed to disk
    last.safetensors            the newest checkpoint, replaced atomically; epoch-<k>.safetensors are kept on request
    audit.json                  what an audit measured on the checkpoint (``store/audits.py``)
    control.json                accuracies of the controls of a watched run (``store/controls.py``)
    done.json | failed.json     exactly one of them, written last

The status of a run follows from which files exist and whether ``lock`` is held. The training process holds ``lock``.
The operating system releases it when the process ends, so a killed run can be resumed at once.

The files are tied to one run. ``config.json`` and the directory's name hold the run id. The checkpoint and the file
that ends the run hold the run id, a digest of the rows and a checksum of themselves. Every reader checks these ties. A
run with a file that is truncated, edited or from another run is damaged, and is neither judged nor exported. A run of
an earlier version may have fewer ties; those that it has are checked.
"""

from __future__ import annotations

import fnmatch
import hashlib
import html
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import filelock
import orjson

from faudit.config import RunConfig, quoted
from faudit.errors import ConfigError, DamagedError, LockedError, StoreError
from faudit.own_members import FAMILIES, MEMBERS
from faudit.registry import DIGITS, nearest, some_of
from faudit.store.files import contents, read_json, refusals, write_json, write_whole
from faudit.store.rows import AGAIN, EXACT, OVERFLOWED, TIME, TIMINGS, Row, from_lines, is_time, to_line
from faudit.store.watched import parsed

FORMAT = 1  # version of the run directory; readers refuse a larger one
TIMES = re.compile(rb', "(?:%s)": [0-9.e+-]+' % "|".join(TIMINGS).encode())
IMPORTED = "imported"  # the key in env.json that says where imported rows come from
PATTERN = "*?["  # letters that make the name of runs a pattern
LOCK_PATIENCE = 2.0  # seconds; a process that reads the status holds the lock for a moment


class Status(str, Enum):
    """The status of a run; JSON and messages show its value."""

    NEW = "new"
    RUNNING = "running"
    STOPPED = "stopped"  # started and not finished, free to resume
    DONE = "done"
    FAILED = "failed"

    __str__ = str.__str__  # Python 3.12 would print Status.DONE


ENDED = (Status.DONE, Status.FAILED)


@dataclass(frozen=True)
class Run:
    """One run's directory."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __str__(self) -> str:
        """The name with the status and the main numbers; for a damaged run, the problem."""
        from faudit.store.summary import sentence

        try:
            return sentence(self)
        except StoreError as error:
            return str(error)

    def _repr_html_(self) -> str:
        """What a notebook shows: the settings that are not at their default, and the last rows."""
        from faudit.store.summary import page

        try:
            return page(self)
        except StoreError as error:
            return f"<p>{html.escape(str(error))}</p>"

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
        """The status of the run, from its files and its lock."""
        if self._has("done.json"):
            return Status.DONE
        if self._has("failed.json"):
            return Status.FAILED
        if not self._has("config.json"):
            return Status.NEW
        return Status.RUNNING if self._is_locked() else Status.STOPPED

    def _has(self, name: str) -> bool:
        """Whether a file exists; joins text, which is many times faster than ``Path`` for thousands of runs.

        A link to nothing exists too: who reads it is told so, and the run does not pass for one without the file.
        """
        try:
            os.lstat(f"{self.path}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            with refusals(f"{self.path}/{name}"):
                raise
        return True

    def _is_locked(self) -> bool:
        try:
            with filelock.FileLock(self.path / "lock", timeout=0):
                return False
        except filelock.Timeout:
            return True
        except OSError:  # a read-only store: no process can hold its locks
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run; raises LockedError if another process holds it."""
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
        """Write config and environment, or check them against those of a resumed run; returns remarks on changes."""
        for left_over in self.path.glob(".*.tmp"):  # left by a process killed before the rename
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
        decisive = ("faudit", "commit", "torch", "cpu", "compile")
        changed = [name for name in decisive if newest.get(name) != environment.get(name)]
        if changed:
            write_json(self.path / "env.json", {**before, "resumed": [*before.get("resumed", []), dict(environment)]})
        return [
            f"{name} was {newest.get(name)}, is now {environment.get(name)}: results may differ" for name in changed
        ]

    def must_hold(self, config: RunConfig) -> None:
        """Refuse a run with other settings: the hash leaves out defaults, and defaults may change between versions."""
        if self.config() != config:
            raise StoreError(
                f"{self.path} holds another configuration with the same run id. Use another --runs directory."
            )

    def must_be_whole(self) -> None:
        """Refuse a run whose configuration, rows and outcome do not match."""
        self.config()
        self.rows()

    def config(self) -> RunConfig:
        """The configuration of this run."""
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
            raise damaged(path, f"expected an object under 'config', got {type(values).__name__}")
        kept = values.get(MEMBERS)
        for family in (*FAMILIES, "data"):  # never read from the source: what is there now may be something else
            if ":" in str(values.get(family)) and not (isinstance(kept, dict) and family in kept):
                raise damaged(path, f"it does not hold the settings of {family} {values[family]}")
        try:
            config = parsed(values, where=path)
        except ConfigError as error:
            raise StoreError(f"{path} cannot be read: {'; '.join(str(error).splitlines())}") from None
        for who, name in (("names", document.get("run_id")), ("is in the directory of", run_id_in(self.path.name))):
            if name is not None and name != config.run_id:
                raise damaged(path, f"its settings are those of {config.run_id}, but it {who} {name}")
        return config

    def environment(self) -> dict[str, Any]:
        path = f"{self.path}/env.json"
        return of_kinds(read_json(path), ENVIRONMENT, path=path)

    @property
    def is_imported(self) -> bool:
        """Whether the rows come from a result file, so that there are no weights."""
        with suppress(StoreError):
            return IMPORTED in self.environment()
        return False

    def outcome(self) -> dict[str, Any] | None:
        """The contents of ``done.json`` or ``failed.json``; None if neither exists."""
        for name in ("done.json", "failed.json"):
            if self._has(name):
                path = f"{self.path}/{name}"
                said = of_kinds(read_json(path, orjson.loads), OUTCOME, path=path)
                # Compares the directory's name if possible: parsing thousands of configurations takes seconds.
                if said.get("run_id") not in (None, own := run_id_in(self.name) or self.config().run_id):
                    raise damaged(path, f"it belongs to {said['run_id']}, but {self.path} holds {own}")
                if said.pop("seal", None) not in (None, seal(said)):
                    raise damaged(path, "it was edited: its contents do not match its seal")
                return said
        return None

    def row_lines(self) -> list[bytes]:
        """The complete lines of ``rows.jsonl``; skips a last line that a kill cut short."""
        if not self._has("rows.jsonl"):
            return []
        with refusals(f"{self.path}/rows.jsonl"):
            return contents(f"{self.path}/rows.jsonl").split(b"\n")[:-1]

    def rows(self) -> list[Row]:
        """Every row, checked. The rows of an ended run must be those that it ended with."""
        lines = self.row_lines()
        rows = from_lines(lines, where=f"{self.path}/rows.jsonl")  # first, because its error names the damaged line
        if not self._ended_with(lines, self.outcome() or {}):
            raise damaged(self.rows_file, "its rows are not those that the run ended with")
        return rows

    def _ended_with(self, lines: Sequence[bytes], ended: Mapping[str, Any]) -> bool:
        """True if the run has not ended, or has ended with these rows."""
        if "rows" in ended:
            return bool(ended["rows"] == digest(lines))
        last = ended.get("epochs", ended.get("epoch"))  # an earlier version wrote only its last epoch
        return last is None or bool(lines and re.search(rb'"epoch": ?%d\b' % last, lines[-1]))

    def last_rows(self, outcome: Mapping[str, Any]) -> list[Row]:
        """The last row alone, if outcome and lines look valid; else all rows, whose check names what is wrong."""
        lines = self.row_lines()
        if self._ended_with(lines, outcome) and all(
            line.startswith(b'{"epoch": ') and line.endswith(b"}") for line in lines
        ):
            return from_lines(lines[-1:], where=f"{self.path}/rows.jsonl", first=len(lines))
        return self.rows()

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row and wait until it is on disk."""
        with refusals(self.rows_file), open(self.rows_file, "ab") as file:
            file.write(to_line(row).encode())
            file.flush()
            os.fsync(file.fileno())

    def keep_rows(self, until: int) -> None:
        """Drop rows of later epochs and an incomplete last line; training writes them again."""
        lines = [line for line, row in zip(self.row_lines(), self.rows(), strict=True) if row["epoch"] <= until]
        write_whole(self.rows_file, b"".join(line + b"\n" for line in lines))

    def ties(self) -> dict[str, Any]:
        """What ties a file to the current state of this run: its id, and a digest of its rows."""
        return {"run_id": self.config().run_id, "rows": digest(self.row_lines())}

    def finish(self, summary: Mapping[str, Any]) -> None:
        write_json(self.path / "done.json", sealed({**summary, **self.ties()}))

    def fail(self, reason: Mapping[str, Any]) -> None:
        write_json(self.path / "failed.json", sealed({**reason, **self.ties()}))

    def try_again(self) -> None:
        """Reset a failed run to train from the start; the reason stays in ``failed-before.json``."""
        with self.locked(), refusals(self.path):
            if (self.path / "failed.json").exists():  # else another process has already reset it
                self.checkpoint.unlink(missing_ok=True)  # first: after a kill here the run is still failed
                os.replace(self.path / "failed.json", self.path / "failed-before.json")

    def set_aside(self) -> Path | None:
        """Reset a run to train from the start; moves its files into a folder inside its directory."""
        if not self.path.is_dir():
            return None
        with self.locked(), refusals(self.path):
            files = [path for path in self.path.iterdir() if path.is_file() and path.name != "lock"]
            if not files:
                return None
            aside = next(path for k in itertools.count(1) if not (path := self.path / f"aside-{k}").exists())
            aside.mkdir()
            for path in sorted(files, key=lambda path: path.name != "config.json"):  # first: without it the run is new
                os.replace(path, aside / path.name)
            return aside


def runs_in(store: Path | str) -> list[Run]:
    """Every run of a store, by name. Rows without a configuration are a run that lost it."""
    store = Path(store)
    with refusals(store):
        if store.is_dir():
            found = map(Run, sorted(store.iterdir()))
            return [run for run in found if run._has("config.json") or run._has("rows.jsonl")]
    raise no_store(store)


def run_named(name: str, runs: Path) -> Run:
    """Find one run by its directory, by its name in the store, or by a prefix or pattern that only one name has."""
    found = runs_named(name, runs)
    if len(found) > 1:
        raise StoreError(
            f"{name!r} is not one run: {len(found)} runs in {runs} match. Name one of "
            f"{some_of([run.name for run in found])}."
        )
    return found[0]


def runs_named(name: str, runs: Path) -> list[Run]:
    """The runs of a name: one directory or name, or every run whose name has this prefix or fits this pattern."""
    with refusals(name):
        run = Run(Path(name) if (Path(name) / "config.json").exists() else runs / name)
    if name and (run.status != Status.NEW or run.rows_file.exists()):
        return [run]
    names = [run.name for run in runs_in(runs)]
    found = matching(name, names)
    if not found:
        raise unknown_run(name, names, runs)
    return [Run(runs / hit) for hit in found]


def matching(name: str, names: Sequence[str]) -> list[str]:
    """The names that are equal to a name, or else start with it, or else fit it as a pattern with * ? [ ]."""
    if name in names:
        return [name]
    begin = [one for one in names if name and one.startswith(name)]
    return begin or fnmatch.filter(names, name)


def unknown_run(name: str, names: Sequence[str], runs: Path | str) -> StoreError:
    return StoreError(
        f"unknown run {name!r}{nearest(name, names)}: expected a directory, or the name, a prefix or a pattern of one "
        f"of the {len(names)} runs in {runs}. List them with `faudit show --runs {runs}`."
    )


def must_not_begin_again(config: RunConfig, store: Path) -> None:
    """Refuse a new run if the store has the same run, unfinished, with other source of an own member."""
    if not config.own or Run(store / config.run_id).status != Status.NEW or not store.is_dir():
        return
    for path in sorted(store.glob(f"{config.run_stem}-*")):
        run = Run(path)
        if run.status in (Status.NEW, *ENDED):
            continue
        other = run.config()
        shared = other.settings.keys() & config.settings.keys()
        if other.stray != config.stray or any(other.settings[name] != config.settings[name] for name in shared):
            continue
        for family in other.own.keys() & config.own.keys():
            old, new = other.own[family].source, config.own[family].source
            if old != new:
                raise StoreError(
                    f"{path} was begun with other source of {family} {config.own[family].name}: expected "
                    f"{old[:DIGITS]}, got {new[:DIGITS]}. Put the old source back to resume it, or move it away. "
                    "`faudit train --again` trains a new run beside it."
                )


def run_id_in(name: str) -> str | None:
    """The run id in the name of a directory; None for any other name."""
    found = re.fullmatch(r"(?:imported-)?([A-Za-z_].*-s\d+-[0-9a-f]{10})", name)
    return found[1] if found else None


def digest(lines: Sequence[bytes]) -> dict[str, Any]:
    """The number of rows and a checksum of their lines, without timings, which differ between identical runs."""
    return {"count": len(lines), "sha256": hashlib.sha256(TIMES.sub(b"", b"\n".join(lines))).hexdigest()}


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A document with a checksum of itself."""
    return {**document, "seal": seal(document)}


def seal(document: Mapping[str, Any]) -> str:
    """A checksum over all that a document holds."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def of_kinds(document: dict[str, Any], kinds: Mapping[str, str], *, path: str) -> dict[str, Any]:
    """Check the kinds of some values of a document; a missing value is valid."""
    for name, kind in kinds.items():
        value = document.get(name)
        if value is not None and not KINDS[kind](value):
            raise damaged(path, f"{name!r}: expected {kind}, got {quoted(value)}")
    return document


def is_number(value: Any) -> bool:
    """Whether a value is a number that a table can hold, or the text for one that overflowed."""
    if isinstance(value, str):
        return value in OVERFLOWED
    return isinstance(value, float) or is_whole(value)


def is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) <= EXACT


KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "a number": is_number,
    "a whole number": is_whole,
    TIME: is_time,
    "an object": lambda value: isinstance(value, dict),
    "a list of objects": lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
}
OUTCOME = {
    **dict.fromkeys(("run_id", "reason", "weights_sha256", "test_right"), "text"),
    **dict.fromkeys(("epochs", "epoch", "peak_bytes"), "a whole number"),
    **dict.fromkeys(("test_acc", "growth_max"), "a number"),
    "seconds": TIME,
    "rows": "an object",
}
ENVIRONMENT = {"data_sha256": "text", "data": "an object", "resumed": "a list of objects"}


def damaged(path: str | Path, problem: str) -> DamagedError:
    return DamagedError(f"{path} is damaged: {problem}. {AGAIN}")


def no_store(store: Path) -> StoreError:
    return StoreError(
        f"no run store at {store}: expected a directory of runs. Make one with `faudit train --runs {store}`."
    )
