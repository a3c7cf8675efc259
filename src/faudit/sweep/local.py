"""The local engine: worker processes on this machine. Each worker trains one run after another.

The parent sends one or several configurations to a worker and the worker returns an answer for each. Several runs are
trained as one computation (``together.py``). Each worker has its own pipe, because a process that dies inside a shared
queue can leave it locked. When a pipe closes, the worker has died and its runs are answered as ``died``. When the
parent exits, its workers exit too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.stack.plan import grouped, parsed
from faudit.sweep.drive import Outcome, drive
from faudit.sweep.engine import NO_FLAGS, Answer, Flags, Start, attempt, cores
from faudit.sweep.together import attempt_all


def run_all(configs: Sequence[RunConfig], runs: Path, *, data_dir: Path | None, jobs: int) -> Outcome:
    """Train every run that is not finished on this machine, up to ``jobs`` at once."""
    return drive(configs, runs, start=starter(runs, data_dir=data_dir, jobs=jobs))


def starter(runs: Path, *, data_dir: Path | None, jobs: int | None, flags: Flags = NO_FLAGS) -> Start:
    """Start workers on this machine. The default of ``jobs`` is the cores divided by the threads of a run."""
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: expected a whole number ≥ 1, got {jobs}. Give one per core.")
    flags.only("local")
    most = parsed(flags.stack)

    def side_by_side(todo: Sequence[RunConfig]) -> int:
        return jobs or max(1, cores() // max(config.threads for config in todo))

    def start(todo: Sequence[RunConfig]) -> Workers:
        threads = max(config.threads for config in todo)
        return Workers(runs, data_dir, jobs=side_by_side(todo), threads=threads)

    def groups(todo: Sequence[RunConfig]) -> list[list[RunConfig]]:
        return grouped(todo, jobs=side_by_side(todo), most=most) if todo else []

    return Start(start, groups=groups)


@dataclass
class Worker:
    """A process, the parent's end of its pipe, and the runs that it is training, by their place in the message."""

    process: SpawnProcess
    pipe: Connection
    configs: dict[int, RunConfig] = field(default_factory=dict)


class Workers:
    """Up to ``jobs`` processes, started when there are runs for them."""

    def __init__(self, runs: Path, data_dir: Path | None, *, jobs: int, threads: int) -> None:
        self._jobs, self._told = jobs, (runs, data_dir, threads)
        self._workers: dict[Connection, Worker] = {}

    def close(self) -> None:
        """Stop all workers. A stopped run can resume from its checkpoint later."""
        for pipe in list(self._workers):
            self._remove(pipe)

    @property
    def running(self) -> list[RunConfig]:
        return [config for worker in self._workers.values() for config in worker.configs.values()]

    @property
    def free(self) -> bool:
        return sum(bool(worker.configs) for worker in self._workers.values()) < self._jobs

    def give(self, config: RunConfig) -> None:
        """Give a run to an idle worker, or to a new one."""
        self.give_stack([config])

    def give_stack(self, configs: Sequence[RunConfig]) -> None:
        """Give runs to an idle worker, or to a new one, to be trained as one computation."""
        idle = (worker for worker in self._workers.values() if not worker.configs)
        worker = next(idle, None) or self._start()
        worker.configs = dict(enumerate(configs))
        with suppress(BrokenPipeError):  # it died while idle: `answers` sees that its pipe has closed
            worker.pipe.send([config.to_json() for config in configs])

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        """The answers of the workers. Waits at most ``timeout`` seconds for the first."""
        found = []
        for pipe in wait(list(self._workers), timeout):
            assert isinstance(pipe, Connection)
            worker = self._workers[pipe]
            try:
                place, answer = pipe.recv()
                found.append((worker.configs.pop(place), answer))
            except (EOFError, OSError):  # the worker died, perhaps in the middle of a message
                died = Answer("died", f"its worker was ended by {self._remove(pipe)}")
                found += [(config, died) for config in worker.configs.values()]
        return found

    def _start(self) -> Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, *self._told), daemon=True)
        with safe_path():
            resource_tracker.ensure_running()  # here, since starting it unblocks SIGINT
        # Ctrl-C reaches every process of the terminal. Only the parent handles it: workers inherit the blocked signal.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with safe_path():
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the pipe closes when the worker dies
        worker = self._workers[ours] = Worker(process, ours)
        return worker

    def _remove(self, pipe: Connection) -> str:
        """Kill a worker, remove it, and return how it ended. For a dead worker that is how it died."""
        worker = self._workers.pop(pipe)
        worker.process.kill()
        worker.process.join()
        pipe.close()
        code = worker.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes started inside do not import from the working directory until they have their parent's path.

    Otherwise a types.py there would replace Python's own. Python 3.10 ignores this variable.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def work(pipe: Connection, runs: Path, data_dir: Path | None, threads: int) -> None:
    """The worker's main loop: train the runs that the pipe delivers, until the parent closes it or exits."""
    parent = parent_process()
    assert parent is not None, "a worker is a child"

    def leave() -> None:
        parent.join()
        os._exit(1)  # at once, whatever the worker is doing: a run survives a kill anywhere

    threading.Thread(target=leave, daemon=True).start()
    # torch is loaded later and reads these variables then. So it makes no more threads than the runs ask for.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    with suppress(EOFError, ConnectionError):
        while True:
            several = pipe.recv()
            if len(several) == 1:
                pipe.send((0, attempt(several[0], runs, data_dir=data_dir)))
                continue
            for place, answer in attempt_all(several, runs, data_dir=data_dir):
                pipe.send((place, answer))
