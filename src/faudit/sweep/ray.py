"""The Ray engine: trains runs as tasks on a cluster. The nodes do not need to share a disk with the driver.

The driver holds the lock of a run and owns its directory. It sends the configuration, rows and checkpoint to a task.
The task trains in a temporary store on its node and sends each new row and checkpoint back. The driver writes them in
the same order as a local trainer. So a lost node costs only the work after its last update, a lost driver frees its
locks, and the driver's store is complete. A node on which several tasks fail in a row gets no more tasks. A task reads
its data from ``--data-dir`` if the node has that folder. Otherwise the driver puts the dataset into Ray's object store,
and each node copies it once. Needs ``pip install 'faudit[ray]'`` here and faudit on every node. The package of an own
member must be on every node too, or be in the folder that it is in here.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, FauditError, LockedError
from faudit.store.files import refusals
from faudit.store.run import ENDED, Run
from faudit.sweep.engine import NO_FLAGS, Answer, Flags, Start, cores, loaded
from faudit.sweep.run_update import HEADS, NEEDS_DATA, NEXT, RunUpdate, parts_of, task_function, write_down

OBJECT_STORE = 256 * 2**20  # bytes, for a Ray on this machine: it holds only updates, since the workers read this disk
CONNECT, ANSWER = 5.0, 15.0  # timeouts in seconds: to connect to an address, and for Ray to answer there
LOOK_EVERY = 1.0  # seconds between two queries of the cluster's nodes
AHEAD = 4  # updates that a task may send before the driver takes one; then it waits, so the object store stays small
MAX_FAILURES = 2  # tasks that fail in a row on a node before it gets no more
NODE = "ray.io/node-id"  # a label that Ray gives every node


def starter(runs: Path, *, data_dir: Path | None, jobs: int | None, flags: Flags = NO_FLAGS) -> Start:
    """Run tasks on the cluster at ``--address``, or start Ray on this machine."""
    flags.only("ray")
    address = flags.address
    try:
        import ray  # noqa: F401  # tests whether it is installed
    except ImportError:
        raise ConfigError(
            "--engine ray needs the package ray, which is not installed. Install it with `pip install 'faudit[ray]'`."
        ) from None
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: expected a whole number ≥ 1, got {jobs}. Leave it out to use the whole cluster.")
    if address is not None:
        must_answer(address)
    return Start(
        lambda todo: Tasks(runs, data_dir, jobs=jobs, address=address, todo=todo), elsewhere=address is not None
    )


def must_answer(address: str) -> None:
    """Raise within seconds if no Ray cluster answers at an address. Ray itself would try for minutes."""
    advice = (
        "Start one with `ray start --head`, and make this machine one of its nodes (`ray start --address HOST:PORT`); "
        "or leave out --address to start Ray on this machine."
    )
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
    """A running task: its run, its stream of updates, and the lock that the driver holds for it."""

    config: RunConfig
    lock: ExitStack
    stream: Any = None
    node: str = ""  # the id of its node, once the task has begun
    remarks: list[str] = field(default_factory=list)


class Tasks:
    """Trains runs as Ray tasks. Each task reserves its CPUs and, on CUDA, one GPU."""

    def __init__(
        self, runs: Path, data_dir: Path | None, *, jobs: int | None, address: str | None, todo: Sequence[RunConfig]
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray, self._runs, self._jobs = ray, runs, jobs
        self._data_dir = str(data_dir.absolute()) if data_dir else None
        threads = max(config.threads for config in todo)
        self._tasks: list[Task] = []
        self._answers: list[tuple[RunConfig, Answer]] = []
        self._sent: dict[str, Any] = {}  # datasets in the object store, by name
        self._nodes: list[Mapping[str, Any]] = []
        self._looked = 0.0
        self._failures = Counter[str]()  # node id → tasks that failed there in a row
        self._trouble = ""  # the last failure: its node and reason
        where: dict[str, Any] = {"address": address}
        if address is None:
            where = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE}
            where["num_cpus"] = jobs * threads if jobs else max(cores(), threads)
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
        except Exception as error:  # Ray raises plain Exceptions, for example when its processes do not start in time
            said = (str(error).splitlines() or [repr(error)])[0].rstrip(".")
            raise ConfigError(f"cannot start on Ray: {said}. Check --address, or use --engine local.") from error
        kind = {"num_returns": "streaming", "max_retries": 0, "_generator_backpressure_num_objects": AHEAD}
        self._train = ray.remote(**kind)(task_function())

    def close(self) -> None:
        for task in self._tasks:
            task.lock.close()  # first, since Ray is slow to stop; no task can write into this store
        for task in self._tasks:
            with suppress(self._ray.exceptions.RayError):  # the cluster is gone
                self._ray.cancel(task.stream, force=True)
        self._ray.shutdown()

    @property
    def running(self) -> list[RunConfig]:
        return [task.config for task in self._tasks] + [config for config, _ in self._answers]

    @property
    def free(self) -> bool:
        if self._jobs:
            return len(self._tasks) < self._jobs
        total = sum(node.get("CPU", 0.0) for node in self._alive())
        return not self._tasks or sum(task.config.threads for task in self._tasks) < total

    def give(self, config: RunConfig) -> None:
        lock = ExitStack()
        try:
            lock.enter_context(Run(self._runs / config.run_id).locked())
            if Run(self._runs / config.run_id).status in ENDED:  # another driver has just finished it
                self._end(Task(config, lock), Answer("ended", "by another process"))
            elif not any(fits(config, node) for node in self._alive()):
                need = " and ".join(f"{amount:g} {name}" for name, amount in needs(config).items())
                but = f" that works ({self._trouble})" if self._failing() else ""
                text = f"needs {need} on one node: the cluster has no such node{but}"
                self._end(Task(config, lock), Answer("refused", text))
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
            for _ in range(AHEAD):
                for task in self._ready():
                    self._receive(task)
        elif not self._answers:
            time.sleep(timeout)
        found, self._answers = self._answers, []
        return found

    def _ready(self) -> list[Task]:
        """The tasks that have sent an update or have ended."""
        streams = [task.stream for task in self._tasks]
        ready = self._ray.wait(streams, num_returns=len(streams), timeout=0)[0] if streams else []
        return [task for task in self._tasks if task.stream in ready]

    def _alive(self) -> list[Mapping[str, float]]:
        """The resources of each node that may get runs."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
        return [node["Resources"] for node in self._nodes if node["NodeID"] not in self._failing()]

    def _failing(self) -> list[str]:
        return [node for node, count in self._failures.items() if count >= MAX_FAILURES]

    def _submit(self, task: Task) -> None:
        """Send a run to a node that has room. The caller holds the lock."""
        run = Run(self._runs / task.config.run_id)
        kept = [run.kept(epoch).name for epoch in task.config.keep_epochs]
        names = [*HEADS, "rows.jsonl", *kept, run.checkpoint.name]
        with refusals(run.path):
            files = {name: (run.path / name).read_bytes() for name in names if (run.path / name).exists()}
        need = needs(task.config)
        options: dict[str, Any] = {"num_cpus": need["CPU"], "num_gpus": need.get("GPU", 0)}
        if failing := self._failing():
            plans = self._ray.util.scheduling_strategies
            options["scheduling_strategy"] = plans.NodeLabelSchedulingStrategy(hard={NODE: plans.NotIn(*failing)})
        # In a list, Ray does not resolve the reference. So only a node without its own copy fetches the dataset.
        sent = [self._sent[task.config.data]] if task.config.data in self._sent else []
        places = [os.getcwd(), *filter(None, sys.path)] if task.config.own else []
        words = (task.config.to_json(), files, self._data_dir, sent, str(self._runs), places)
        task.node, task.stream = "", self._train.options(**options).remote(*words)

    def _receive(self, task: Task) -> None:
        """Take the next item of a task: first the id of its node, then its updates."""
        errors = self._ray.exceptions
        try:
            came: str | RunUpdate = self._ray.get(next(task.stream))
            if isinstance(came, str):
                task.node = came
            else:
                write_down(came, Run(self._runs / task.config.run_id))
                self._handle(task, came.answer)
        except errors.RayTaskError as error:  # first, since it is also an instance of its cause's class
            self._fail(task, str(error).strip().splitlines()[-1])
        except FauditError as error:  # from the driver's own disk or data
            self._ray.cancel(task.stream, force=True)
            self._end(task, Answer("refused", "; ".join(str(error).splitlines())))
        except (errors.RayError, StopIteration) as error:
            self._end(task, Answer("died", f"its worker was lost ({type(error).__name__})"))

    def _handle(self, task: Task, answer: Answer) -> None:
        """Act on an answer. Its remarks are kept and shown when the task ends."""
        if answer.word == "disk":
            self._fail(task, answer.text)
        elif answer.word == NEXT:
            task.remarks += answer.remarks
        elif answer.word == NEEDS_DATA:
            self._send(task.config.data)
            task.remarks.append(f"{task.config.data} was not found on a node, so the driver sends it there")
            self._submit(task)
        else:
            if task.node not in self._failing():
                del self._failures[task.node]
            self._end(task, answer)

    def _fail(self, task: Task, reason: str) -> None:
        """Handle a failure of the node itself: answer ``died``, and stop using a node that fails again and again."""
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in self._nodes}
        self._trouble = f"node {names.get(task.node, 'unknown')}: {reason}"
        if task.node:
            self._failures[task.node] += 1
            if self._failures[task.node] == MAX_FAILURES:
                task.remarks.append(f"gives no more runs to {self._trouble}")
        self._end(task, Answer("died", self._trouble))

    def _send(self, name: str) -> None:
        """Put a dataset into the object store, once."""
        if name not in self._sent:
            folder = Path(self._data_dir) if self._data_dir else None
            self._sent[name] = self._ray.put(parts_of(loaded(name, folder)))

    def _end(self, task: Task, answer: Answer) -> None:
        task.lock.close()
        if task in self._tasks:
            self._tasks.remove(task)
        self._answers.append((task.config, Answer(answer.word, answer.text, (*task.remarks, *answer.remarks))))


def needs(config: RunConfig) -> dict[str, int]:
    """The resources that a run needs on its node: one CPU per thread, and one GPU if it trains on CUDA."""
    return {"CPU": config.threads, **({"GPU": 1} if config.device.startswith("cuda") else {})}


def fits(config: RunConfig, node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0.0) >= amount for name, amount in needs(config).items())
