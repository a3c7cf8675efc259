"""The local engine: every run of a list that is not finished, trained once, in worker processes.  (no torch)

The parent decides, the workers train. What is finished, held or damaged is read from the run directories, never
remembered, so a killed worker, a killed parent and a second parent on the same store are all one case: somebody's lock
is gone, or held. Each worker has a pipe of its own (a process that dies in a shared queue can leave it locked), takes
one configuration after another, and answers in a word. A pipe that ends is a worker that died: its run goes back.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, FauditError, LockedError
from faudit.store import Run
from faudit.sweep.display import Display, shown, standing

POLL = 0.5  # seconds between two looks at the running runs
LOOK_AGAIN = 1.0  # seconds between two looks at runs that another process holds
RETRIES = 2  # further workers that a run gets when its worker dies
FINAL = ("done", "failed", "left")


@dataclass(frozen=True)
class Outcome:
    """What became of every run, by run id: ``failed`` diverged, ``left`` could not be trained; both say why."""

    done: list[str]
    failed: dict[str, str]
    left: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What became of one attempt at a run: ``ended`` (its files say how), ``held``, ``refused`` or ``died``."""

    word: str
    text: str = ""
    remarks: tuple[str, ...] = ()


def run_all(configs: Sequence[RunConfig], runs: Path, *, data_dir: Path | None, jobs: int) -> Outcome:
    """Make every run that is not finished, up to ``jobs`` at once; go on where an earlier call was stopped.

    An interrupt (Ctrl-C or SIGTERM) stops the workers and is raised as KeyboardInterrupt.
    """
    if jobs < 1:
        raise ConfigError(f"jobs: expected a whole number ≥ 1, got {jobs}. Give one per core.")
    wanted = {config.run_id: config for config in configs}
    standings = {name: standing(runs / name, config) for name, config in wanted.items()}
    ends = {name: end for name, end in standings.items() if end[0] in FINAL}
    todo = deque(config for name, config in wanted.items() if name not in ends)
    if todo:
        threads = max(config.threads for config in todo)
        pool = closing(Workers(runs, data_dir, jobs=jobs, threads=threads))
        with terminable(), pool as workers, shown(wanted, ends, runs) as show:
            drive(todo, runs, ends=ends, workers=workers, show=show)
    return Outcome(
        done=[name for name in wanted if ends[name][0] == "done"],
        failed={name: ends[name][1] for name in wanted if ends[name][0] == "failed"},
        left={name: ends[name][1] for name in wanted if ends[name][0] == "left"},
    )


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def drive(
    todo: deque[RunConfig], runs: Path, *, ends: dict[str, tuple[str, str]], workers: Workers, show: Display
) -> None:
    """Hand out what is to do until every run has its end."""
    held: dict[str, RunConfig] = {}  # by other processes: looked at again once there is nothing else to hand out
    deaths: Counter[str] = Counter()
    looked = 0.0

    def end(config: RunConfig, word: str, text: str) -> None:
        ends[config.run_id] = (word, text)
        show.ended(config, word, text)

    while todo or held or workers.running:
        while todo and workers.free:
            config = todo.popleft()
            word, text = standing(runs / config.run_id, config)  # again: a second parent may have been here
            if word in FINAL:
                end(config, word, text or "by another process")
            elif word == "running":
                held[config.run_id] = config
            else:
                workers.give(config)
                show.began(config)
        for config, answer in workers.answers(timeout=POLL):
            for remark in answer.remarks:
                show.say(remark)
            if answer.word == "held":
                held[config.run_id] = config
            elif answer.word == "ended":
                word, text = standing(runs / config.run_id, config)
                end(config, *((word, text) if word in FINAL else ("left", "was trained, but its files are gone")))
            elif answer.word == "died" and deaths[config.run_id] < RETRIES:
                deaths[config.run_id] += 1
                show.say(f"{config.run_id}: {answer.text}; it is tried again from its last checkpoint")
                todo.append(config)
            elif answer.word == "died":
                end(config, "left", f"{answer.text}, as were {RETRIES} before it. Is there memory for so many jobs?")
            else:
                end(config, "left", answer.text)
        show.tick([*workers.running, *held.values()])
        if held and not todo and time.monotonic() - looked >= LOOK_AGAIN:
            looked = time.monotonic()
            todo.extend(held.values())
            held.clear()


@dataclass
class Worker:
    """A process, the parent's end of its pipe, and what it is training."""

    process: SpawnProcess
    pipe: Connection
    config: RunConfig | None = None


class Workers:
    """Up to ``jobs`` processes, started when there is work for them; ``drive`` knows no more of an engine than this."""

    def __init__(self, runs: Path, data_dir: Path | None, *, jobs: int, threads: int) -> None:
        self._jobs, self._told = jobs, (runs, data_dir, threads)
        self._workers: dict[Connection, Worker] = {}

    def close(self) -> None:
        """Stop them all. A run under way is stopped where it is: it goes on from its checkpoint later."""
        for pipe in list(self._workers):
            self._bury(pipe)

    @property
    def running(self) -> list[RunConfig]:
        return [worker.config for worker in self._workers.values() if worker.config]

    @property
    def free(self) -> bool:
        return len(self.running) < self._jobs

    def give(self, config: RunConfig) -> None:
        """Let a worker train a run."""
        idle = (worker for worker in self._workers.values() if not worker.config)
        worker = next(idle, None) or self._start()
        worker.config = config
        with suppress(BrokenPipeError):  # it died idle: `answers` meets the end of its pipe
            worker.pipe.send(config.to_json())

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        """What the workers said, waiting at most so many seconds for the first."""
        found = []
        for pipe in wait(list(self._workers), timeout):
            assert isinstance(pipe, Connection)
            worker = self._workers[pipe]
            try:
                answer: Answer = pipe.recv()
            except (EOFError, OSError):  # also in the middle of a message
                answer = Answer("died", f"its worker was ended by {self._bury(pipe)}")
            if worker.config:
                found.append((worker.config, answer))
            worker.config = None
        return found

    def _start(self) -> Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, *self._told), daemon=True)
        resource_tracker.ensure_running()  # here, since starting it unblocks SIGINT
        # Ctrl-C reaches every process of the terminal, and it is the parent that answers it: workers inherit the block.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the pipe ends with the worker
        worker = self._workers[ours] = Worker(process, ours)
        return worker

    def _bury(self, pipe: Connection) -> str:
        """End a worker and forget it; how it ended, which for one already dead is how it died."""
        worker = self._workers.pop(pipe)
        worker.process.kill()
        worker.process.join()
        pipe.close()
        code = worker.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def work(pipe: Connection, runs: Path, data_dir: Path | None, threads: int) -> None:
    """A worker's life: train what comes down the pipe until the parent closes it, or is gone."""
    parent = parent_process()
    assert parent is not None, "a worker is a child"

    def leave() -> None:
        parent.join()
        os._exit(1)  # in the middle of whatever the worker does, as by any kill

    threading.Thread(target=leave, daemon=True).start()
    # Read when torch is loaded, which is later: no more threads are made than the runs ask for.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(attempt(pipe.recv(), runs, data_dir=data_dir))


def attempt(settings: Mapping[str, Any], runs: Path, *, data_dir: Path | None) -> Answer:
    """Train one run to its end."""
    config, bug = RunConfig.parse(settings, where="sweep"), []
    with warnings.catch_warnings(record=True) as caught:
        try:
            from faudit.train import stream

            for _ in stream(config, Run(runs / config.run_id), data_dir=data_dir):
                pass
            word, text = "ended", ""
        except FauditError as error:
            word, text = "held" if isinstance(error, LockedError) else "refused", "; ".join(str(error).splitlines())
        except Exception as error:  # noqa: BLE001  # told with its traceback; the other runs are none the worse for it
            word, text = "refused", f"met a bug: {error!r}"
            bug = [f"{config.run_id} met a bug:\n{traceback.format_exc()}"]
    return Answer(word, text, (*(f"faudit: warning: {entry.message}" for entry in caught), *bug))


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
