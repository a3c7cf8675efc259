"""Read and write files atomically, and turn errors of the operating system into one line.

A file is written under a temporary name, flushed to disk and then renamed, so a reader sees the old file or the new one
even if the writer is killed. A symbolic link stays and its target is replaced. Devices, pipes, sockets and directories
are refused: reading one may block or never end, and a rename would destroy it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from faudit.errors import StoreError

STDOUT = Path("-")  # standard output, as the name of a file to write
CHUNK = 1 << 20  # bytes that are read at once


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Replace a text file; bytes that are not UTF-8 (in the name of a run) become "?"."""
    write_whole(path, text.encode("utf-8", "replace"))


def contents(path: str | Path, start: int = 0) -> bytes:
    """Read a file from a byte on, with system calls: a third of the time of ``open`` for thousands of small files."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not block on a pipe without a writer
    try:
        refuse_special(path, os.fstat(file).st_mode)
        if start:
            os.lseek(file, start, os.SEEK_SET)
        parts = []
        while part := os.read(file, CHUNK):
            parts.append(part)
            if len(part) < CHUNK:  # the end of a regular file; asking once more takes as long as reading it
                break
    finally:
        os.close(file)
    return b"".join(parts)


def read_json(path: str | Path, loads: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    """Read a JSON object; ``orjson.loads`` is faster, but cannot parse integers above 64 bits."""
    try:
        with refusals(path):
            document = loads(contents(path))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is damaged: expected JSON, got {error}") from None
    if not isinstance(document, dict):
        raise StoreError(f"{path} is damaged: expected a JSON object, got {type(document).__name__}")
    return document


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by a rename, so that a reader sees the old or the new file even after a kill."""
    with refusals(path):
        target = destination(path)
        beside = temporary(target)
        try:
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # makes the rename durable
        finally:
            os.close(folder)


def destination(path: Path) -> Path:
    """The path itself, or the target of a symbolic link; refuses anything but a regular file."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    with suppress(FileNotFoundError):
        refuse_special(path, os.stat(target).st_mode)
    return target


def must_be_file(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    with refusals(path):
        destination(path)
        os.stat(path.parent)


def temporary(target: Path) -> Path:
    """The temporary path of a file that is being written."""
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")


def refuse_special(path: str | Path, mode: int) -> None:
    """Refuse anything but a regular file."""
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise StoreError(
            f"cannot use {path}: expected a file, got {kinds.get(stat.S_IFMT(mode), 'a device')}. Name another one."
        )


@contextmanager
def refusals(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a one-line error that says what to do."""
    advice = {
        errno.ENOSPC: "Free some space and run the same command again: a run goes on from its last checkpoint.",
        errno.EACCES: "Give yourself permission, or choose another directory.",
        errno.EPERM: "Give yourself permission, or choose another directory.",
        errno.EROFS: "Choose a directory on a disk that can be written.",
        errno.ENOSYS: "Choose a --runs directory on a disk that has file locks (flock).",
        errno.ENOTDIR: "Choose a directory that is not a file.",
        errno.EEXIST: "Choose a directory that is not a file.",
    }
    try:
        yield
    except OSError as error:
        if isinstance(error, filelock.Timeout):
            raise
        what = advice.get(error.errno or 0, "Check the path, then run the same command again.")
        raise StoreError(f"cannot use {path}: {error.strerror or error}. {what}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces the file when the context ends; ``-`` is standard output."""
    if path == STDOUT:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "whole"
            sys.stdout.buffer.write((Path(folder) / "whole").read_bytes())
        return
    with refusals(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        target = destination(path)
        try:
            yield temporary(target)
            os.replace(temporary(target), target)
        finally:
            temporary(target).unlink(missing_ok=True)
