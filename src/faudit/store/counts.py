"""Count what a long loop has done.

A loop over many things is written ``for run in counted(runs, …)``. Whoever shows progress, such as the command line,
asks for the counts with ``telling``. Without that nothing is shown. This file imports nothing of faudit, because the
command line imports it at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Tell = Callable[[int, int, str], None]  # (done, total, the last one)
TOLD: ContextVar[Tell | None] = ContextVar("TOLD", default=None)


@contextmanager
def telling(tell: Tell | None) -> Iterator[None]:
    """Give the counts of all loops inside to a function. None silences them. Other threads are not counted."""
    before = TOLD.set(tell)
    try:
        yield
    finally:
        TOLD.reset(before)


def counted(things: Collection[T], name: Callable[[T], str] = str) -> Iterator[T]:
    """The things one by one; each is counted when the next one is asked for."""
    tell = TOLD.get()
    if tell is None:
        yield from things
        return
    tell(0, len(things), "")
    for place, thing in enumerate(things, start=1):
        yield thing
        tell(place, len(things), name(thing))
