"""Run a command with a terminal as its standard output, as a reader of the docs does."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 100
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and cursors


@dataclass(frozen=True)
class Ran:
    """What became of a command."""

    code: int
    stdout: str
    stderr: str


def in_terminal(command: str, folder: Path) -> Ran:
    """Run a line of shell in a folder, in a terminal of 100 columns; colours are taken out. stderr is a file."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with tempfile.TemporaryFile("w+") as errors:
        words = ["bash", "-c", command]
        env = {**kept, "PATH": path, "TERM": "xterm"}
        started = subprocess.Popen(words, stdout=theirs, stderr=errors, stdin=subprocess.DEVNULL, cwd=folder, env=env)
        os.close(theirs)
        out = b""
        while piece := read(ours):
            out += piece
        os.close(ours)
        code = started.wait()
        errors.seek(0)
        return Ran(code, STYLE.sub("", out.decode()).replace("\r\n", "\n"), errors.read())


def read(terminal: int) -> bytes:
    """The next piece of output; nothing when the other side is closed, which Linux reports as an error."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
