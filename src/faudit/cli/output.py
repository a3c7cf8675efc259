"""What the commands print: results on stdout, remarks and problems on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any


def print_json(document: Any) -> None:
    """A result for a program."""
    print(json.dumps(document, indent=1, allow_nan=False))


def say(*things: Any) -> None:
    """Print tables and text on stdout as they are: in a pipe never narrower than they need, and a [ is a [."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 240)
    for thing in things:
        if isinstance(thing, str):
            print(thing)
        else:
            console.print(thing)


def remark(remarks: Iterable[str]) -> None:
    """Print what a reader of the result must know, each remark once."""
    for text in dict.fromkeys(remarks):
        print(f"faudit: note: {text}", file=sys.stderr)


def complain(problems: Iterable[str]) -> None:
    """Print what is wrong, one line each."""
    for text in problems:
        print(f"faudit: {text}", file=sys.stderr)
