"""The command line in a fork of this process: as fast as a call, with streams and limits of its own.

A fork has torch already. Its stdout and stderr are real files, closed ones, or whatever descriptor a test gives it, so
what the command line does to its streams is done to real ones.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ESCAPED = 99  # the exit code of a child whose main() raised


@dataclass(frozen=True)
class Answer:
    """What a child left: its exit code (``-signal`` if one ended it), and what it printed."""

    code: int
    out: str
    err: str
    seconds: float
    hung: bool = False


def forked(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    stdout: int | None = None,
    closed: Sequence[int] = (),
    memory: int | None = None,
    patience: float = 60.0,
) -> Answer:
    """Run one command; ``closed`` are descriptors that it starts without, ``memory`` is how many more bytes it may map.

    It is killed when it takes longer than ``patience`` seconds.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = fork()
        if child == 0:
            code = ESCAPED
            try:
                prepare({1: out.fileno() if stdout is None else stdout, 2: err.fileno()}, closed, memory=memory)
                if cwd is not None:
                    os.chdir(cwd)
                code = called(words)
            except BaseException:  # noqa: BLE001  # a fork must never come back into the test that made it
                traceback.print_exc()
            finally:
                os._exit(code)
        hung = not waited(child, until=started + patience)
        if hung:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1] if hung else STATUS.pop(child)
        out.seek(0)
        err.seek(0)
        said, told = (file.read().decode("utf-8", "replace") for file in (out, err))
    return Answer(os.waitstatus_to_exitcode(status), said, told, time.monotonic() - started, hung=hung)


def fork() -> int:
    """As ``os.fork``; Python 3.12 warns of threads, of which the child uses none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


STATUS: dict[int, int] = {}  # of children that were waited for


def waited(child: int, *, until: float) -> bool:
    """Whether a child ended in time."""
    pause = 0.001
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            STATUS[child] = status
            return True
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
    return False


def prepare(files: dict[int, int], closed: Sequence[int], *, memory: int | None) -> None:
    """Streams as the interpreter would have made them at its start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    warnings.resetwarnings()
    for number, file in files.items():
        os.dup2(file, number)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        stream = None if number in closed else open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for number in closed:
        os.close(number)
    if memory is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, mapped + memory))


def called(words: Sequence[str]) -> int:
    """The exit code, with everything flushed as at the end of a process."""
    import torch

    from faudit.cli.main import main

    torch.set_num_threads(1)  # a fork has no threads but its own
    code = main(list(words))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code
