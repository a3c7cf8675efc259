"""The Ray engine: runs as tasks on a cluster whose nodes need share no disk with the driver.  (no torch)

The driver holds a run's lock and owns its directory. A task is sent what is there (configuration, rows, checkpoint),
trains in a temporary store of its node, and sends back what is new with every row; the driver writes it down in the
order in which a trainer would. So a lost node costs what came after the last parcel, a lost driver frees its locks, and
the driver's store is complete. A task reads its data from ``--data-dir`` if its node has that; if not, the driver puts
the dataset into Ray's object store, which carries it to each node once. Needs ``pip install 'faudit[ray]'`` here and
faudit on every node.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, FauditError, LockedError
from faudit.store import Run, refusals, write_whole
from faudit.sweep.engine import Answer, Start, cores, loaded
from faudit.sweep.parcel import HEADS, NEEDS_DATA, Parcel, parts_of, train

OBJECT_STORE = 256 * 2**20  # bytes, of a Ray of one's own: parcels only, since its workers read this disk
CONNECT, ANSWER = 5.0, 30.0  # seconds until an address does not exist, until what is there is no Ray cluster
LOOK_EVERY = 1.0  # seconds between two looks at the cluster's nodes


def starter(runs: Path, *, data_dir: Path | None, jobs: int | None, address: str | None = None) -> Start:
    """Tasks on the cluster at an address, or on a Ray of one's own on this machine."""
    try:
        import ray  # noqa: F401  # whether it is there
    except ImportError:
        raise ConfigError(
            "--engine ray needs the package ray, which is not installed. Install it with `pip install 'faudit[ray]'`."
        ) from None
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: expected a whole number ≥ 1, got {jobs}. Leave it out to use the whole cluster.")
    if address is not None:
        must_answer(address)
    return Start(
        lambda todo: Tasks(runs, data_dir, jobs=jobs, address=address, todo=todo), data_elsewhere=address is not None
    )


def must_answer(address: str) -> None:
    """Refuse an address within seconds where no Ray cluster answers: Ray itself would try for minutes."""
    advice = "Start one with `ray start --head`, or leave --address out for a Ray on this machine."
    if address != "auto":
        found = re.fullmatch(r"([^/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
        if not found or int(found[2]) > 65535:
            raise ConfigError(f"--address: expected HOST:PORT of a Ray cluster's head, or auto, got {address!r}.")
        try:
            socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=CONNECT).close()
        except OSError as error:
            raise ConfigError(f"no Ray cluster at {address}: {error.strerror or error}. {advice}") from None
    code = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", code, address], capture_output=True, text=True, timeout=ANSWER, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"no Ray cluster at {address}: no answer in {ANSWER:.0f} s. {advice}") from None
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"no Ray cluster at {address}: {said}. {advice}")


@dataclass(eq=False)
class Task:
    """A run under way: its stream of parcels, and the lock that the driver holds for it."""

    config: RunConfig
    lock: ExitStack
    stream: Any = None
    remarks: list[str] = field(default_factory=list)


class Tasks:
    """Runs as Ray tasks, each with the processors and, on CUDA, the graphics processor that it needs."""

    def __init__(
        self, runs: Path, data_dir: Path | None, *, jobs: int | None, address: str | None, todo: Sequence[RunConfig]
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray, self._runs, self._jobs = ray, runs, jobs
        self._data_dir = str(data_dir.absolute()) if data_dir else None
        self._threads = max(config.threads for config in todo)
        self._tasks: list[Task] = []
        self._answers: list[tuple[RunConfig, Answer]] = []
        self._sent: dict[str, Any] = {}  # datasets in the object store, by name
        self._nodes: list[Mapping[str, float]] = []
        self._looked = 0.0
        own = {"num_cpus": (jobs or cores()) * self._threads, "object_store_memory": OBJECT_STORE}
        where: dict[str, Any] = own | {"include_dashboard": False} if address is None else {"address": address}
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
        except Exception as error:  # Ray raises bare ones, as when its processes do not start in time
            said = (str(error).splitlines() or [repr(error)])[0].rstrip(".")
            raise ConfigError(f"cannot start on Ray: {said}. Check --address, or use --engine local.") from error
        self._train = ray.remote(num_returns="streaming", max_retries=0)(train)

    def close(self) -> None:
        self._ray.shutdown()  # ends the tasks too
        for task in self._tasks:
            task.lock.close()

    @property
    def running(self) -> list[RunConfig]:
        return [task.config for task in self._tasks] + [config for config, _ in self._answers]

    @property
    def free(self) -> bool:
        total = sum(node.get("CPU", 0.0) for node in self._alive())
        return len(self._tasks) < (self._jobs or max(1, int(total // self._threads)))

    def give(self, config: RunConfig) -> None:
        lock = ExitStack()
        try:
            lock.enter_context(Run(self._runs / config.run_id).locked())
            if Run(self._runs / config.run_id).status in ("done", "failed"):  # by another driver, a moment ago
                self._end(Task(config, lock), Answer("ended"))
            elif not any(fits(config, node) for node in self._alive()):
                need = " and ".join(f"{amount:g} {name}" for name, amount in needs(config).items())
                self._end(Task(config, lock), Answer("refused", f"needs {need} on one node: the cluster has none such"))
            else:
                task = Task(config, lock)
                self._submit(task)
                self._tasks.append(task)
        except FauditError as error:
            word = "held" if isinstance(error, LockedError) else "refused"
            self._end(Task(config, lock), Answer(word, str(error)))

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        if self._tasks and not self._answers:
            self._ray.wait([task.stream for task in self._tasks], num_returns=1, timeout=timeout)
            streams = [task.stream for task in self._tasks]
            ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
            for task in [task for task in self._tasks if task.stream in ready]:
                self._hear(task)
        elif not self._answers:
            time.sleep(timeout)
        found, self._answers = self._answers, []
        return found

    def _alive(self) -> list[Mapping[str, float]]:
        """What each node of the cluster has."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return self._nodes

    def _submit(self, task: Task) -> None:
        """Send a run to wherever there is room; the lock is held."""
        run = Run(self._runs / task.config.run_id)
        names = [*HEADS, "rows.jsonl", run.checkpoint.name]
        with refusals(run.path):
            files = {name: (run.path / name).read_bytes() for name in names if (run.path / name).exists()}
        need = needs(task.config)
        options = self._train.options(num_cpus=need["CPU"], num_gpus=need.get("GPU", 0))
        sent = self._sent.get(task.config.data)
        task.stream = options.remote(task.config.to_json(), files, self._data_dir, sent)

    def _hear(self, task: Task) -> None:
        """Take one parcel of a task."""
        errors = self._ray.exceptions
        try:
            parcel: Parcel = self._ray.get(next(task.stream))
            self._store(task, parcel)
            task.remarks += parcel.remarks
            if parcel.answer and parcel.answer.word == NEEDS_DATA:
                self._send(task.config.data)
                task.remarks.append(f"{task.config.data} was not found on a node and is sent there from here")
                self._submit(task)
            elif parcel.answer:
                self._end(task, parcel.answer)
        except FauditError as error:  # of the driver's own disk or data
            self._end(task, Answer("refused", "; ".join(str(error).splitlines())))
        except errors.RayTaskError as error:
            self._end(task, Answer("refused", f"met a bug on its node: {str(error).strip().splitlines()[-1]}"))
        except (errors.RayError, StopIteration) as error:
            self._end(task, Answer("died", f"its worker was lost ({type(error).__name__})"))

    def _send(self, name: str) -> None:
        """Put a dataset where every node can take it from, once."""
        if name not in self._sent:
            folder = Path(self._data_dir) if self._data_dir else None
            self._sent[name] = self._ray.put(parts_of(loaded(name, folder)))

    def _end(self, task: Task, answer: Answer) -> None:
        task.lock.close()
        if task in self._tasks:
            self._tasks.remove(task)
        if answer.word != "ended" and task.stream is not None and answer.word != "died":
            self._ray.cancel(task.stream, force=True)
        self._answers.append((task.config, Answer(answer.word, answer.text, (*task.remarks, *answer.remarks))))

    def _store(self, task: Task, parcel: Parcel) -> None:
        """Write down what came, as a trainer would: rows before the checkpoint, what says that the run ended last."""
        run = Run(self._runs / task.config.run_id)
        for name in [name for name in HEADS if name in parcel.files]:
            write_whole(run.path / name, parcel.files[name])
        if parcel.afresh:
            write_whole(run.rows_file, parcel.rows)
        elif parcel.rows:
            with refusals(run.rows_file), open(run.rows_file, "ab") as file:
                file.write(parcel.rows)
                file.flush()
                os.fsync(file.fileno())
        for name in [name for name in parcel.files if name not in HEADS]:
            write_whole(run.path / name, parcel.files[name])


def needs(config: RunConfig) -> dict[str, int]:
    """What a run needs of its node: a processor a thread, and a graphics processor where it trains on one."""
    return {"CPU": config.threads, **({"GPU": 1} if config.device.startswith("cuda") else {})}


def fits(config: RunConfig, node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0.0) >= amount for name, amount in needs(config).items())
