"""Drive a sweep: hand every unfinished run to an engine once, and record how each run ended.

The driver reads the state of each run (finished, locked, damaged) from its directory every time. It keeps no state
file. So a killed worker, a killed driver and a second driver on the same store need no special code: a lock is either
free or held.
"""

from __future__ import annotations

import fcntl
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from faudit.config import RunConfig
from faudit.errors import LockedError, StoreError
from faudit.store.files import refusals
from faudit.store.run import ENDED, Run, Status
from faudit.sweep.display import Display, last_row, shown, standing
from faudit.sweep.engine import Engine, StackingEngine, Start
from faudit.sweep.trackers.tracker import recorded

POLL = 0.5  # seconds to wait for answers from the engine
LOOK_AGAIN = 1.0  # seconds between two checks of runs that another process holds
RETRIES = 2  # more workers for a run whose worker died before it wrote a new checkpoint
FINAL = (*ENDED, "left")


@dataclass(frozen=True)
class Outcome:
    """How every run ended, by run id, with the reason. ``failed``: diverged or raised. ``left``: not trainable."""

    done: list[str]
    failed: dict[str, str]
    left: dict[str, str]


def drive(
    configs: Sequence[RunConfig],
    runs: Path,
    *,
    start: Start,
    retry_failed: bool = False,
    trackers: Mapping[str, Path] | None = None,
) -> Outcome:
    """Train every run that is not finished, from its last checkpoint. ``trackers`` are names with their folders.

    An interrupt (Ctrl-C or SIGTERM) stops the engine and is raised as KeyboardInterrupt.
    """
    wanted = {config.run_id: config for config in configs}
    standings = {name: standing(runs / name, config) for name, config in wanted.items()}
    if retry_failed:
        for name in [name for name, (word, _) in standings.items() if word == Status.FAILED]:
            with suppress(LockedError):  # a second driver is already retrying it
                Run(runs / name).try_again()
            standings[name] = standing(runs / name, wanted[name])
    ends = {name: end for name, end in standings.items() if end[0] in FINAL}
    todo = tuple(config for name, config in wanted.items() if name not in ends)
    with shown(wanted, ends, runs) as bars, recorded(bars, trackers or {}, wanted=wanted, ends=ends, runs=runs) as show:
        if todo:
            must_be_writable(runs)
            with closing(start(todo)) as engine, sigterm_interrupts():
                hand_out(todo, runs, ends=ends, start=start, engine=engine, show=show)
    return Outcome(
        done=[name for name in wanted if ends[name][0] == Status.DONE],
        failed={name: ends[name][1] for name in wanted if ends[name][0] == Status.FAILED},
        left={name: ends[name][1] for name in wanted if ends[name][0] == "left"},
    )


def must_be_writable(runs: Path) -> None:
    """Raise before anything starts if the store cannot be written or its file system has no locks.

    Without locks, filelock falls back to a plain lock file, which stays behind when a process is killed.
    """
    with refusals(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hand_out(
    wanted: Sequence[RunConfig],
    runs: Path,
    *,
    ends: dict[str, tuple[str, str]],
    start: Start,
    engine: Engine,
    show: Display,
) -> None:
    """Give runs to the engine until every run has ended."""
    todo = deque(start.groups(wanted))
    held: dict[str, RunConfig] = {}  # held by other processes: checked again when ``todo`` is empty
    deaths: dict[str, tuple[int, int]] = {}  # run id → (time of its checkpoint, workers that died since)
    looked, told = 0.0, False

    def end(config: RunConfig, word: str, text: str) -> None:
        ends[config.run_id] = (word, text)
        show.ended(config, word, text)

    while todo or held or engine.running:
        while todo and engine.free:
            ready = []
            for config in todo.popleft():
                word, text = standing(runs / config.run_id, config)  # again: a second driver may have trained it
                if word in FINAL:
                    end(config, word, text or "by another process")
                elif word == Status.RUNNING:
                    held[config.run_id] = config
                else:
                    ready.append(config)
            give(ready, engine)
            for config in ready:
                show.began(config)
        again = []  # runs whose worker died
        for config, answer in engine.answers(timeout=POLL):
            for remark in answer.remarks:
                show.say(remark)
            if answer.word == "held":
                held[config.run_id] = config
            elif answer.word in ("ended", "raised"):
                if answer.word == "raised":
                    fail(Run(runs / config.run_id), answer.text)
                word, text = standing(runs / config.run_id, config)
                gone = ("left", answer.text if answer.word == "raised" else "was trained, but its files are gone")
                end(config, *((word, text or answer.text) if word in FINAL else gone))
            elif answer.word == "died" and (count := died(config, runs, deaths)) <= RETRIES:
                show.say(f"{config.run_id}: {answer.text}; retrying from its last checkpoint")
                # Together the first time. Then each alone: one of them may be what ends the worker.
                if count == 1:
                    again.append(config)
                else:
                    todo.append([config])
            elif answer.word == "died":
                what = answer.text.rstrip(".")
                end(config, "left", f"{what}. {count} attempts made no progress. Check its memory and disk.")
            else:
                end(config, "left", answer.text)
        todo.extend(start.groups(again))
        show.tick([*engine.running, *held.values()])
        if held and not (todo or engine.running or told):
            told = True
            show.say(f"waiting for {len(held)} run{'s' * (len(held) > 1)} that another process holds")
        if held and not todo and time.monotonic() - looked >= LOOK_AGAIN:
            looked = time.monotonic()
            todo.extend(start.groups(tuple(held.values())))
            held.clear()


def give(configs: Sequence[RunConfig], engine: Engine) -> None:
    """Give runs to one worker of the engine."""
    if len(configs) == 1:
        engine.give(configs[0])
    elif configs:
        assert isinstance(engine, StackingEngine), "only such an engine puts runs together"
        engine.give_stack(configs)


def died(config: RunConfig, runs: Path, deaths: dict[str, tuple[int, int]]) -> int:
    """Count how many workers of a run died in a row without a new checkpoint."""
    checkpoint = Run(runs / config.run_id).checkpoint
    written = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    before, count = deaths.get(config.run_id, (0, 0))
    deaths[config.run_id] = (written, count + 1 if written == before else 1)
    return deaths[config.run_id][1]


def fail(run: Run, reason: str) -> None:
    """Write failed.json for a run that raised, as the trainer does for a run that diverges.

    Only ``--retry-failed`` trains such a run again. A run that had not begun, or that another process holds, is left
    unchanged.
    """
    with suppress(LockedError, StoreError), run.locked():
        if run.status == Status.RUNNING:  # the lock is ours: so it has begun and not ended
            row = last_row(run.path)
            run.fail({"reason": reason, "epoch": row["epoch"] if row else None, "entry": None, "tap": None})


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block. Python allows this only in the main thread."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    catch = signal.signal if threading.current_thread() is threading.main_thread() else lambda *_: None
    before = catch(signal.SIGTERM, stop)
    try:
        yield
    finally:
        catch(signal.SIGTERM, before or signal.SIG_DFL)
