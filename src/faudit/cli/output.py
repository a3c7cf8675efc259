"""The output of the commands: results on stdout, remarks and problems on stderr.

A result that cannot be written ends the command (``Unwritten``). A remark that cannot be written is dropped.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.errors import ConfigError
from faudit.store.files import STDOUT, write_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LONG = 2000  # characters of a line on stderr
WIDE = 240  # characters of a line in a pipe


class Unwritten(Exception):
    """A result could not be written to stdout. Not an ``OSError``, since rich exits with its own code for that."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror or str(cause))
        self.reader_left = cause.errno == errno.EPIPE


class Results(io.FileIO):
    """stdout: raises ``Unwritten`` if a write fails."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            written = super().write(data)
        except OSError as error:
            raise Unwritten(error) from None
        if written is None:
            raise Unwritten(BlockingIOError(errno.EAGAIN, "it does not wait for its reader"))
        return written


class Remarks(io.FileIO):
    """stderr: drops what cannot be written, so that a remark never costs a result."""

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        try:
            return super().write(data) or size
        except OSError:
            return size


def prepare_streams() -> None:
    """Make stdout and stderr usable even if they are closed, full, without a reader, or set to ASCII."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: without this, the next file that is opened would be it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, kind in (("stdout", Results), ("stderr", Remarks)):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, opened(kind, stream, {"stdout": 1, "stderr": 2}[name]))
        elif hasattr(stream, "reconfigure"):  # a replaced stream, as under pytest
            stream.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_: complain([f"warning: {message}"])


def opened(kind: type[io.FileIO], before: io.TextIOWrapper | None, number: int) -> io.TextIOWrapper:
    """Reopen a stream of the process so that it writes through ``kind``."""
    if before is not None:
        before.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(number, "wb", closefd=False)),
        encoding="utf-8" if before is None else before.encoding,
        errors="replace",  # an ASCII terminal has no ‖h‖
        line_buffering=number == 2 or (before is not None and (before.line_buffering or before.write_through)),
    )


def silence_stdout() -> None:
    """Redirect stdout to the null device, since Python flushes the rest of the buffer when it exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def print_json(document: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(document, indent=1, allow_nan=False))


def width() -> int:
    """The characters in a line of stdout: those of the terminal, and many in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE


def say(*things: Any) -> None:
    """Print tables and text on stdout. In a pipe, lines are not narrowed; square brackets are not markup."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, width=width())
    for thing in things:
        if isinstance(thing, str):
            print(thing)
        else:
            console.print(thing)


def write_page(path: Path, text: str) -> None:
    """Write a text into a file, or to standard output for ``-``."""
    if path == STDOUT:
        print(text)
    else:
        write_text(path, text)


def refuse_stdout(flag: str, path: Path, expected: str) -> None:
    """Raise if ``path`` is ``-`` and the command writes more than one file."""
    if path == STDOUT:
        raise ConfigError(f"{flag}: expected {expected}, got -, which is standard output and holds one file. Name one.")


def remark(remarks: Iterable[str]) -> None:
    """Print what a reader of the result must know, each remark once."""
    complain(f"note: {text}" for text in dict.fromkeys(remarks))


def complain(problems: Iterable[str]) -> None:
    """Print what is wrong, one line each; a line quotes what it is about, which may be of any length."""
    for text in problems:
        print(f"faudit: {text if len(text) <= LONG else f'{text[:LONG]}…'}", file=sys.stderr)
