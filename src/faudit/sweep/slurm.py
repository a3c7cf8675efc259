"""The SLURM engine: trains runs as job arrays on a cluster whose nodes share the store's disk.

A job of an array trains one run, or several in turn. It trains in the store, as a local worker does, and holds the
run's lock. File locks may not hold between the nodes of a cluster, so a second rule keeps two jobs from one run:
SLURM's list of jobs says which jobs a run has, and only the one that SLURM got first trains it. A driver submits no run
that has a job in the queue; it waits for that job instead. So a killed driver leaves its jobs, and the next one takes
them over.

SLURM tells a job that its time is up, and submitit puts it back into the queue if it has written a checkpoint. The runs
of a job that ends in any other way without an answer are answered as ``died``. Needs ``pip install 'faudit[slurm]'``
here, and the same Python and faudit at the same place on every node.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store.run import Run
from faudit.sweep.engine import NO_FLAGS, Answer, Flags, Start, attempt
from faudit.sweep.slurm_queue import NOT_SHARED, STUCK, Entry, Needs, Queue, listed, owners, rejected

MOST = 1000  # runs in the queue at once: an array of SLURM's default settings has no more
LOOK_EVERY = 5.0  # seconds between two queries of SLURM's list
READ_EVERY = 1.0  # seconds between two looks for results
LOOKS = 2  # queries in which a job must be gone before it has died: its result may reach this machine's disk late
FULL = ("temporarily", "submit limit", "MaxSubmit")  # what SLURM says of a queue that is full
NEVER = ("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit")  # reasons for which a job waits for ever
COMMANDS = ("sbatch", "squeue", "scancel", "srun")


def starter(runs: Path, *, data_dir: Path | None, jobs: int | None, flags: Flags = NO_FLAGS) -> Start:
    """Submit job arrays. ``jobs`` is the number of jobs that may run side by side; by default SLURM decides."""
    flags.only("slurm")
    try:
        import submitit  # noqa: F401  # tests whether it is installed
    except ImportError:
        raise ConfigError(
            "--engine slurm needs the package submitit, which is not installed. "
            "Install it with `pip install 'faudit[slurm]'`."
        ) from None
    for command in COMMANDS:
        if shutil.which(command) is None:
            raise ConfigError(
                f"--engine slurm needs SLURM's command {command}, which is not on the PATH. Run faudit on a machine "
                "that submits to the cluster, or use --engine local."
            )
    for name, number in (("jobs", jobs), ("cpus", flags.cpus), ("runs-per-job", flags.runs_per_job)):
        if number is not None and number < 1:
            raise ConfigError(f"--{name}: expected a whole number ≥ 1, got {number}. Leave it out for the default.")
    queue = Queue(runs.absolute(), flags)
    said = queue.refusal(Needs(flags.cpus or 1, 1, False), 1)
    if said and not is_full(said):  # a full queue may hold the runs of a driver that was killed
        raise ConfigError(rejected(said))
    folder = data_dir.absolute() if data_dir else None
    return Start(lambda todo: Jobs(runs.absolute(), folder, jobs=jobs, queue=queue), elsewhere=True, at_once=MOST)


def is_full(said: str) -> bool:
    return any(word in said for word in FULL)


class Training:
    """What a job does on its node: it trains its runs one after another."""

    def __init__(self, configs: Sequence[RunConfig], runs: Path, data_dir: Path | None) -> None:
        self._settings, self._runs, self._data_dir = [config.to_json() for config in configs], runs, data_dir
        own = any(config.own for config in configs)
        self._places = [os.getcwd(), *filter(None, sys.path)] if own else []  # where own members are
        self._ids = [config.run_id for config in configs]
        self.began: list[int] = []

    def __call__(self) -> dict[str, Answer]:
        sys.path += [place for place in self._places if place not in sys.path]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit ignores it, but there is nothing to save
        requeue: Any = signal.getsignal(signal.SIGUSR2)

        def told(*words: Any) -> None:
            try:
                requeue(*words)
            except Exception:  # noqa: BLE001  # not requeued; an exception here would be taken for one of the run
                traceback.print_exc()
                os._exit(1)

        signal.signal(signal.SIGUSR2, told)
        self.began, first = self.written(), first_jobs(self._runs)
        return {
            name: Answer("held", f"job {first[name].job} trains it")
            if name in first
            else attempt(settings, self._runs, data_dir=self._data_dir)
            for name, settings in zip(self._ids, self._settings, strict=True)
        }

    def checkpoint(self) -> Any:
        """submitit calls this when the job's time is up. It queues what is returned under the same id."""
        from submitit.helpers import DelayedSubmission

        if self.written() == self.began:
            os._exit(STUCK)
        return DelayedSubmission(self)

    def written(self) -> list[int]:
        """When the checkpoint of each run was written."""
        files = [Run(self._runs / name).checkpoint for name in self._ids]
        return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]


def first_jobs(runs: Path) -> dict[str, Entry]:
    """The runs that another job than this one must train, with that job."""
    parts = [os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK")]
    own = "_".join(part for part in parts if part) or os.environ.get("SLURM_JOB_ID")
    first = owners(runs, (listed(runs) if own else None) or {})
    return {name: entry for name, entry in first.items() if entry.job != own}


@dataclass
class Job:
    """A job in the queue: submitit's view of it, its runs by id, and the queries since SLURM had it."""

    handle: Any
    configs: dict[str, RunConfig] = field(default_factory=dict)
    gone: int = 0


class Jobs:
    """Collects the runs that it is given, and submits them as arrays."""

    def __init__(self, runs: Path, data_dir: Path | None, *, jobs: int | None, queue: Queue) -> None:
        self._runs, self._data_dir, self._at_once, self._queue = runs, data_dir, jobs, queue
        self._waiting: list[RunConfig] = []  # not submitted yet
        self._jobs: dict[str, Job] = {}  # by SLURM's id
        self._over: set[str] = set()  # ids of jobs that were answered and may still be in SLURM's list
        self._died: set[str] = set()  # runs whose job died: each gets a job of its own, so the cause hits no other run
        self._answers: list[tuple[RunConfig, Answer]] = []
        self._submits = self._looks = self._reads = 0.0  # when to do these things next
        self._shared = False  # whether a job has found the store on its node

    def close(self) -> None:
        """Cancel the jobs. A cancelled run can resume from its checkpoint later."""
        self._queue.cancel(self._jobs)

    @property
    def running(self) -> list[RunConfig]:
        submitted = [config for job in self._jobs.values() for config in job.configs.values()]
        return [*self._waiting, *submitted, *(config for config, _ in self._answers)]

    @property
    def free(self) -> bool:
        """Runs are taken until they make a large array, not one by one."""
        given = len(self.running)
        return given < MOST and (bool(self._waiting) or given <= MOST // 2)

    def give(self, config: RunConfig) -> None:
        self._waiting.append(config)

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        now = time.monotonic()
        if self._waiting and now >= self._submits:
            self._submit()
        if self._jobs and now >= self._reads:
            self._reads = now + READ_EVERY
            self._read()
        if self._jobs and now >= self._looks:
            self._looks = now + LOOK_EVERY
            self._look()
        if not self._answers:
            time.sleep(timeout)
        found, self._answers = self._answers, []
        return found

    def _submit(self) -> None:
        """Take over the jobs that the waiting runs already have, and submit the other runs."""
        entries = self._queue.listed()
        self._submits = time.monotonic() + LOOK_EVERY
        if entries is None and not self._jobs:
            raise ConfigError(
                "SLURM does not list its jobs: squeue fails. Try it by hand, then give the same command again."
            )
        if entries is None:  # nothing is submitted now: a run could get a second job
            return
        owner, fresh, later = owners(self._runs, entries), list[RunConfig](), list[RunConfig]()
        for config in self._waiting:
            entry = owner.get(config.run_id)
            if entry is None:
                fresh.append(config)
            elif entry.job in self._over:  # it was answered, and SLURM is still ending it
                later.append(config)
            else:
                job = self._jobs.setdefault(entry.job, Job(self._queue.job(entry)))
                job.configs[config.run_id] = config
        self._waiting = later

        def kind(config: RunConfig) -> tuple[Needs, bool]:
            return self._queue.needs(config), config.run_id in self._died

        for (needs, alone), group in groupby(sorted(fresh, key=lambda config: str(kind(config))), key=kind):
            self._array(list(group), needs, per_job=1 if alone else self._queue.per_job)

    def _array(self, configs: list[RunConfig], needs: Needs, *, per_job: int) -> None:
        """Submit as many runs as SLURM takes. The others wait, or are refused if SLURM will never take them."""
        room = self._at_once - len(self._jobs) if self._at_once else MOST
        if room <= 0:
            self._waiting += configs
            return
        jobs = math.ceil(len(configs) / per_job)
        packs, said = [configs[start::jobs] for start in range(jobs)], ""
        while jobs and (said := self._queue.refusal(needs, jobs)):
            jobs //= 2
        if not jobs and not is_full(said):
            self._answers += [(config, Answer("refused", f"SLURM rejects its job: {said}")) for config in configs]
            return
        if not jobs and not self._jobs:
            raise ConfigError(f"SLURM's queue is full: {said}. Give the same command again when it has room.")
        if jobs:
            tasks = [Training(pack, self._runs, self._data_dir) for pack in packs[:jobs]]
            ids = [[config.run_id for config in pack] for pack in packs[:jobs]]
            try:
                handles = self._queue.submit(tasks, ids, needs, room)
            except ConfigError:
                if not self._jobs:
                    raise
                handles, jobs = [], 0  # the queue has filled up since it was asked
            for pack, handle in zip(packs, handles, strict=False):
                self._jobs[handle.job_id] = Job(handle, {config.run_id: config for config in pack})
        self._waiting += [config for pack in packs[jobs:] for config in pack]

    def _read(self) -> None:
        """Answer the jobs that have left a result."""
        folders = {job.handle.paths.folder for job in self._jobs.values()}
        names = {folder / name for folder in folders if folder.is_dir() for name in os.listdir(folder)}
        for number, job in [*self._jobs.items()]:
            if job.handle.paths.result_pickle in names:
                self._shared = True
                error = job.handle.exception()
                if error:
                    self.end(number, Answer("died", f"its job {number}: {last_line(error)}"))
                else:
                    self.end(number, Answer("died", f"its job {number} did not train it"), job.handle.result())

    def _look(self) -> None:
        """Find the jobs that have ended without a result."""
        entries = self._queue.listed()
        if entries is None:
            return
        for number, job in [*self._jobs.items()]:
            entry = entries.get(number)
            if entry and entry.live:
                job.gone = 0
                if entry.reason in NEVER:
                    self._queue.cancel([number])
                    self.end(number, Answer("refused", f"SLURM will never start its job: {entry.reason}"))
            else:
                job.gone += 1
                if entry and entry.code == NOT_SHARED and not self._shared:
                    raise ConfigError(
                        f"the nodes do not share the store: {entry.node} has another {self._runs}, or none. "
                        "Choose a --runs directory on a disk that every node has at the same path."
                    )
                if job.gone >= LOOKS:
                    self.end(number, Answer("died", f"its job {number} {how_it_ended(entry)}"))

    def end(self, number: str, answer: Answer, answers: Mapping[str, Answer] | None = None) -> None:
        """Answer the runs of a job, each with its own answer if it has one."""
        self._over.add(number)
        for name, config in self._jobs.pop(number).configs.items():
            given = (answers or {}).get(name, answer)
            self._answers.append((config, given))
            if given.word == "died":
                self._died.add(name)


def how_it_ended(entry: Entry | None) -> str:
    """What SLURM says of a job that left no result."""
    if entry is None:
        return "is gone from the queue"
    if entry.code == NOT_SHARED:
        return f"did not find the store on {entry.node}; leave that node out with --sbatch exclude={entry.node}"
    if entry.code == STUCK:
        return "reached no new checkpoint within its time limit; raise --time-limit"
    return f"ended as {entry.state} on {entry.node}"


def last_line(error: object) -> str:
    """The exception in submitit's report of a job that raised one."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith(("-", "You can check", "  - "))]
    return lines[-1] if lines else repr(error)
