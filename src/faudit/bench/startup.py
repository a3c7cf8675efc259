"""Time the start of the command line: commands in new processes, in turns with a bare Python and torch's import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from faudit.bench.timing import in_turns, machine, must_be_some, ratio, search_path, spread, told
from faudit.errors import StoreError

BARE, TORCH = "python", "python, import torch"
FAUDIT = ("-m", "faudit")
COMMANDS: dict[str, Sequence[str]] = {
    BARE: ("-c", "pass"),
    TORCH: ("-c", "import torch"),
    "faudit --help": (*FAUDIT, "--help"),
    "faudit train --help": (*FAUDIT, "train", "--help"),
    "faudit list rules": (*FAUDIT, "list", "rules"),
    "faudit show, an empty store": (*FAUDIT, "show", "--runs", "."),
    "faudit train, the smallest run": (*FAUDIT, "train", "--epochs", "1", "--width", "8", "--depth", "2", "--again"),
}


def startup_speed(*, repeats: int) -> dict[str, Any]:
    """The wall seconds of each command, over those of a Python that does nothing."""
    must_be_some(repeats=repeats)
    with TemporaryDirectory(prefix="faudit-bench-") as folder:
        works = {name: partial(started, words, Path(folder)) for name, words in COMMANDS.items()}
        for work in works.values():
            work()  # the first start reads the files from the disk
        times = in_turns(works, repeats=repeats, title="start")
    return {
        "what": "commands in new processes",
        "repeats": repeats,
        "seconds": {name: spread(values, 3) for name, values in times.items()},
        "over_python": {name: ratio(values, times[BARE]) for name, values in times.items() if name != BARE},
        "machine": machine(1),
    }


def started(words: Sequence[str], folder: Path) -> None:
    """Run a command to its end in a folder without runs."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StoreError(f"bench: `{' '.join(words)}` ended with exit code {done.returncode}: {said}")


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [f"{result['what']}, {result['repeats']} of each, wall seconds"]
    return [*out, *(f"    {name:<32}{told(times, '.2f')} s" for name, times in result["seconds"].items())]
