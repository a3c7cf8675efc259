"""What the SLURM engine asks of SLURM: to check, submit, list and cancel jobs.

The name of a job is ``faudit-TOKEN-BATCH``. TOKEN belongs to the store. BATCH is a file in the folder ``slurm`` of the
store that lists the runs of each job of an array. It is written before SLURM gets the array. So SLURM's own list always
tells which runs each job trains, whoever submitted it.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store.files import read_json, refusals, write_json
from faudit.sweep.engine import Answer, Flags

FOLDER, TOKEN = "slurm", "token"  # in the store: batches and, unless --log-dir is given, logs
OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip
NOT_SHARED, STUCK = 76, 77  # exit codes of a job: its node does not see the store; no new checkpoint within the limit
WARNING = 30  # seconds before its time limit at which a job is told
ANSWER = 60.0  # timeout in seconds for one command of SLURM
COLUMNS = ("ArrayJobID", "ArrayTaskID", "Name", "State", "exit_code", "NodeList", "Reason")
FLAG_OF = {"partition": "--partition", "time": "--time-limit", "mem": "--memory", "cpus-per-task": "--cpus"}
OURS = ("array", "error", "job-name", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "requeue",
        "no-requeue", "signal", "test-only", "wait", "wrap")  # fmt: skip
SPANS = (  # as sbatch writes a time limit
    r"(?P<minutes>\d{1,6})(:(?P<seconds>\d{1,6}))?",
    r"(?P<hours>\d{1,6}):(?P<minutes>\d{1,6}):(?P<seconds>\d{1,6})",
    r"(?P<days>\d{1,6})-(?P<hours>\d{1,6})(:(?P<minutes>\d{1,6})(:(?P<seconds>\d{1,6}))?)?",
)
Task = Callable[[], dict[str, Answer]]  # what a job does; it returns an answer for each run id


@dataclass(frozen=True)
class Entry:
    """One job in SLURM's list: ``job`` is its id, or the id of its array and its index there."""

    job: str
    name: str
    state: str
    code: int = 0
    node: str = ""
    reason: str = ""

    @property
    def live(self) -> bool:
        return self.state not in OVER


@dataclass(frozen=True)
class Needs:
    """What a job reserves on its node."""

    cpus: int
    threads: int
    gpu: bool


class Queue:
    """SLURM, as one store uses it. ``runs`` is an absolute path."""

    def __init__(self, runs: Path, flags: Flags) -> None:
        self.minutes = minutes(flags.time_limit or "1:00:00")
        self.per_job = flags.runs_per_job or 1
        self._runs, self._cpus, self._logs = runs, flags.cpus, flags.log_dir and flags.log_dir.absolute()
        given = {"partition": flags.partition, "mem": flags.memory}
        self._options = {**{name: value for name, value in given.items() if value is not None}, **extra(flags.sbatch)}
        for name, value in self._options.items():
            if not str(value).isprintable():  # a new line would become a command of the job's script
                raise ConfigError(f"{FLAG_OF.get(name, '--sbatch')}: expected text on one line, got {value!r}.")

    @property
    def folder(self) -> Path:
        return self._logs or self._runs / FOLDER

    def needs(self, config: RunConfig) -> Needs:
        return Needs(self._cpus or config.threads, config.threads, config.device.startswith("cuda"))

    def refusal(self, needs: Needs, count: int) -> str:
        """Why SLURM would not take so many jobs now; empty if it would. It queues nothing."""
        words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in self._sbatch(needs).items()]
        array = [f"--array=0-{count - 1}"] if count > 1 else []
        command = ["sbatch", "--test-only", f"--time={self.minutes}", *words, *array, "--wrap=true"]
        done = asked(command)
        if not done.returncode:
            return ""
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        said = next((line for line in lines if "fatal: " in line), lines[0])
        return re.sub(r"^(sbatch: |error: |fatal: |allocation failure: )+", "", said).rstrip(".")

    def submit(self, tasks: Sequence[Task], ids: Sequence[Sequence[str]], needs: Needs, at_once: int) -> list[Any]:
        """Queue an array with one job per task, of which ``at_once`` may run side by side. Returns submitit's jobs."""
        import submitit

        name, token = self.batch(ids), store_token(self._runs)
        seen = shlex.quote(str(self._runs / FOLDER / TOKEN))
        setup = [
            f'[ "$(cat {seen})" = {token} ] || exit {NOT_SHARED}',
            f"export PYTHONSAFEPATH=1 OMP_NUM_THREADS={needs.threads} MKL_NUM_THREADS={needs.threads}",
        ]
        with refusals(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            executor = submitit.SlurmExecutor(self.folder, max_num_timeout=10**6)  # a job without progress stops itself
            executor.update_parameters(
                job_name=name,
                time=self.minutes,
                signal_delay_s=WARNING,
                array_parallelism=at_once,
                setup=setup,
                # Its step has the log. A job that cannot open its log would end before it looks for the store.
                additional_parameters={**self._sbatch(needs), "output": "/dev/null", "error": "/dev/null"},
            )
            try:
                return list(executor.submit_array(tasks))
            except submitit.core.utils.FailedJobError as error:
                raise ConfigError(rejected(" ".join(str(error).split()))) from None
            except KeyboardInterrupt:  # sbatch may have been faster
                asked(["scancel", f"--name={name}"])
                raise

    def batch(self, ids: Sequence[Sequence[str]]) -> str:
        """Write down the runs of each job of an array that is about to be queued. Returns the name of its jobs."""
        token, batch = store_token(self._runs), uuid.uuid4().hex[:12]  # the first token makes the folder
        write_json(self._runs / FOLDER / f"{batch}.json", {"runs": ids, "folder": str(self.folder)})
        return f"faudit-{token}-{batch}"

    def job(self, entry: Entry) -> Any:
        """submitit's view of a job that another driver submitted."""
        import submitit

        return submitit.SlurmJob(batch_of(self._runs, entry)["folder"], entry.job)

    def listed(self) -> dict[str, Entry] | None:
        """The jobs of this store that SLURM remembers, by id; None if SLURM does not answer."""
        return listed(self._runs)

    def cancel(self, jobs: Iterable[str]) -> None:
        if ids := list(jobs):
            asked(["scancel", *ids])

    def _sbatch(self, needs: Needs) -> dict[str, Any]:
        gpu = {"gres": "gpu:1"} if needs.gpu else {}
        return {"cpus-per-task": needs.cpus, "requeue": True, **gpu, **self._options}


def asked(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of SLURM. A command that does not answer counts as one that fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=ANSWER)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} gave no answer in {ANSWER:.0f} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]}: {error.strerror or error}")


def rejected(said: str) -> str:
    return (
        f"SLURM rejects the job: {said}. Check --partition, --time-limit, --memory, --cpus and --sbatch. "
        "`sinfo` lists the partitions with their limits."
    )


def listed(runs: Path) -> dict[str, Entry] | None:
    """The jobs of a store in SLURM's list, those that ended minutes ago too; None if SLURM does not answer."""
    prefix = f"faudit-{store_token(runs)}-"
    words = ["--noheader", "--array", "--states=all", f"--user={os.getuid()}"]
    done = asked(["squeue", *words, "--Format=" + ",".join(f"{column}:|" for column in COLUMNS)])
    if done.returncode:
        return None
    found = {}
    for line in done.stdout.splitlines():
        array, index, name, state, code, node, reason = line.split("|")[: len(COLUMNS)]
        if name.startswith(prefix):
            job = f"{array}_{index}" if index.isdigit() else array
            found[job] = Entry(job, name, state, int(code) >> 8 if code.isdigit() else 0, node, reason)
    return found


def owners(runs: Path, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The job that may train each run: of all jobs in the queue for it, the one that SLURM got first."""
    found: dict[str, Entry] = {}
    for entry in sorted(entries.values(), key=lambda entry: number(entry.job), reverse=True):
        if entry.live:
            found.update(dict.fromkeys(batch_of(runs, entry)["runs"][number(entry.job)[1]], entry))
    return found


def number(job: str) -> tuple[int, int]:
    """The two numbers of a job's id."""
    first, _, second = job.partition("_")
    return int(first), int(second or 0)


def batch_of(runs: Path, entry: Entry) -> dict[str, Any]:
    return read_json(runs / FOLDER / f"{entry.name.rpartition('-')[2]}.json")


def store_token(runs: Path) -> str:
    """A random word that tells this store from all others. The first driver writes it."""
    path = runs / FOLDER / TOKEN
    with refusals(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            file, name = tempfile.mkstemp(dir=path.parent)
            os.write(file, uuid.uuid4().hex[:12].encode())
            os.close(file)
            try:
                os.link(name, path)  # fails if another driver was faster, on every kind of disk
            except FileExistsError:
                pass
            finally:
                os.unlink(name)
        return path.read_text()


def minutes(text: str) -> int:
    """A time limit in whole minutes, rounded up as SLURM does."""
    for span in SPANS:
        if found := re.fullmatch(span, text):
            part = {name: int(value) for name, value in found.groupdict(default="0").items()}
            hours = 24 * part.get("days", 0) + part.get("hours", 0)
            if whole := 60 * hours + part["minutes"] + math.ceil(part["seconds"] / 60):
                return whole
    raise ConfigError(
        f"--time-limit: expected minutes, H:M:S or D-H:M:S above zero, got {text!r}. Write 90 or 1:30:00."
    )


def extra(given: Sequence[str] | None) -> dict[str, Any]:
    """The options of ``--sbatch``. One without a value, such as exclusive, is True."""
    options: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"[a-z][a-z0-9-]+", name):
            raise ConfigError(f"--sbatch: expected KEY=VALUE with an option of sbatch, got {text!r}.")
        if name in FLAG_OF:
            raise ConfigError(f"--sbatch: {name} has a flag of its own. Use {FLAG_OF[name]} instead of {text!r}.")
        if name in OURS:
            raise ConfigError(f"--sbatch: faudit sets {name} itself, got {text!r}. Leave it out.")
        options[name] = value if equals else True
    return options
