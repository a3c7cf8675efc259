"""Every run of a list that is not finished, trained once, by whatever engine; what ended how.  (no torch)

What is finished, held or damaged is read from the run directories, never remembered, so a killed worker, a killed
driver and a second driver on the same store are all one case: somebody's lock is gone, or held.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from faudit.config import RunConfig
from faudit.errors import LockedError
from faudit.store import Run, refusals
from faudit.sweep.board import recorded
from faudit.sweep.display import Display, last_row, shown, standing
from faudit.sweep.engine import Engine, Start

POLL = 0.5  # seconds between two looks at the running runs
LOOK_AGAIN = 1.0  # seconds between two looks at runs that another process holds
RETRIES = 2  # further workers that a run gets when its worker dies without having finished one more epoch
FINAL = ("done", "failed", "left")


@dataclass(frozen=True)
class Outcome:
    """What became of every run, by run id: ``failed`` diverged, ``left`` could not be trained; both say why."""

    done: list[str]
    failed: dict[str, str]
    left: dict[str, str]


def drive(
    configs: Sequence[RunConfig], runs: Path, *, start: Start, retry_failed: bool = False, board: Path | None = None
) -> Outcome:
    """Make every run that is not finished; go on where an earlier call was stopped; ``board`` is for TensorBoard.

    An interrupt (Ctrl-C or SIGTERM) stops the engine and is raised as KeyboardInterrupt.
    """
    wanted = {config.run_id: config for config in configs}
    standings = {name: standing(runs / name, config) for name, config in wanted.items()}
    if retry_failed:
        for name in [name for name, (word, _) in standings.items() if word == "failed"]:
            with suppress(LockedError):  # a second driver tries it again at this moment
                Run(runs / name).try_again()
            standings[name] = standing(runs / name, wanted[name])
    ends = {name: end for name, end in standings.items() if end[0] in FINAL}
    todo = deque(config for name, config in wanted.items() if name not in ends)
    with shown(wanted, ends, runs) as bars, recorded(bars, board, wanted=wanted, ends=ends, runs=runs) as show:
        if todo:
            must_be_writable(runs)
            with closing(start(tuple(todo))) as engine, terminable():
                hand_out(todo, runs, ends=ends, engine=engine, show=show)
    return Outcome(
        done=[name for name in wanted if ends[name][0] == "done"],
        failed={name: ends[name][1] for name in wanted if ends[name][0] == "failed"},
        left={name: ends[name][1] for name in wanted if ends[name][0] == "left"},
    )


def must_be_writable(runs: Path) -> None:
    """Say once, before anything starts, that a store cannot be written."""
    with refusals(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs):
            pass


def hand_out(
    todo: deque[RunConfig], runs: Path, *, ends: dict[str, tuple[str, str]], engine: Engine, show: Display
) -> None:
    """Hand out what is to do until every run has its end."""
    held: dict[str, RunConfig] = {}  # by other processes: looked at again once there is nothing else to hand out
    deaths: dict[str, tuple[int, int]] = {}  # how far a run had come when its worker died, and how many died there
    looked = 0.0

    def end(config: RunConfig, word: str, text: str) -> None:
        ends[config.run_id] = (word, text)
        show.ended(config, word, text)

    while todo or held or engine.running:
        while todo and engine.free:
            config = todo.popleft()
            word, text = standing(runs / config.run_id, config)  # again: a second driver may have been here
            if word in FINAL:
                end(config, word, text or "by another process")
            elif word == "running":
                held[config.run_id] = config
            else:
                engine.give(config)
                show.began(config)
        for config, answer in engine.answers(timeout=POLL):
            for remark in answer.remarks:
                show.say(remark)
            if answer.word == "held":
                held[config.run_id] = config
            elif answer.word == "ended":
                word, text = standing(runs / config.run_id, config)
                gone = ("left", "was trained, but its files are gone")
                end(config, *((word, text or answer.text) if word in FINAL else gone))
            elif answer.word == "died" and (count := died(config, runs, deaths)) <= RETRIES:
                show.say(f"{config.run_id}: {answer.text}; it is tried again from its last checkpoint")
                todo.append(config)
            elif answer.word == "died":
                end(config, "left", f"{answer.text}, as were {count - 1} before it. Is there memory for so many jobs?")
            else:
                end(config, "left", answer.text)
        show.tick([*engine.running, *held.values()])
        if held and not todo and time.monotonic() - looked >= LOOK_AGAIN:
            looked = time.monotonic()
            todo.extend(held.values())
            held.clear()


def died(config: RunConfig, runs: Path, deaths: dict[str, tuple[int, int]]) -> int:
    """Count a worker's death: how many have died in this run without getting further than the one before."""
    row = last_row(runs / config.run_id)
    epoch = row["epoch"] if row else -1
    before, count = deaths.get(config.run_id, (-1, 0))
    deaths[config.run_id] = (epoch, 1) if epoch > before else (before, count + 1)
    return deaths[config.run_id][1]


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM as if it were Ctrl-C inside (in the main thread, where alone Python can catch it)."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    catch = signal.signal if threading.current_thread() is threading.main_thread() else lambda *_: None
    before = catch(signal.SIGTERM, stop)
    try:
        yield
    finally:
        catch(signal.SIGTERM, before or signal.SIG_DFL)
