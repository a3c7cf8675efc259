"""The SLURM engine without SLURM: its bookkeeping, its refusals, and its jobs as processes of submitit's executor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store.run import Run
from faudit.sweep.drive import drive
from faudit.sweep.engine import Answer, Flags, Start
from faudit.sweep.slurm import Jobs, Training, how_it_ended, last_line, starter
from faudit.sweep.slurm_queue import NOT_SHARED, STUCK, Entry, Needs, Queue, Task, extra, minutes, owners, store_token
from tests.support.runs import TINY, same_as_alone
from tests.support.studies import TWO_RULES, sweep

FULL = "Resource temporarily unavailable"


@dataclass
class Place:
    """Where submitit would put the files of a job."""

    folder: Path
    result_pickle: Path


@dataclass
class Handle:
    """A job that is only listed."""

    job_id: str
    paths: Place


class Listed(Queue):
    """A SLURM that lists jobs, has room for some, and starts none."""

    def __init__(self, runs: Path, *, room: int = 1000, per_job: int = 1) -> None:
        super().__init__(runs, Flags(runs_per_job=per_job))
        self.room, self.said, self.entries, self.cancelled = room, FULL, dict[str, Entry](), list[str]()
        self.arrays: list[tuple[list[list[str]], int]] = []

    def refusal(self, needs: Needs, count: int) -> str:
        return self.said if count > self.room - len(self.entries) else ""

    def submit(self, tasks: Sequence[Task], ids: Sequence[Sequence[str]], needs: Needs, at_once: int) -> list[Any]:
        name, first = self.batch(ids), 10 * len(self.arrays) + 10
        self.arrays.append(([list(job) for job in ids], at_once))
        made = [Entry(f"{first}_{place}", name, "PENDING") for place in range(len(ids))]
        self.entries.update({entry.job: entry for entry in made})
        return [self.job(entry) for entry in made]

    def job(self, entry: Entry) -> Any:
        return Handle(entry.job, Place(self.folder, self.folder / f"{entry.job}_0_result.pkl"))

    def listed(self) -> dict[str, Entry] | None:
        return dict(self.entries)

    def cancel(self, jobs: Iterable[str]) -> None:
        self.cancelled += jobs


class Processes(Queue):
    """submitit's local executor: each job is a process of this machine, and is queued again when its time is up."""

    def __init__(self, runs: Path, *, per_job: int = 1) -> None:
        import submitit

        super().__init__(runs, Flags(runs_per_job=per_job))
        self.made: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._executor = submitit.LocalExecutor(self.folder, max_num_timeout=9)
        self._executor.update_parameters(timeout_min=5)

    def refusal(self, needs: Needs, count: int) -> str:
        return ""

    def submit(self, tasks: Sequence[Task], ids: Sequence[Sequence[str]], needs: Needs, at_once: int) -> list[Any]:
        jobs = [self._executor.submit(task) for task in tasks]
        for job, names in zip(jobs, ids, strict=True):
            self.made[job.job_id], self._names[job.job_id] = job, self.batch([names])
        return jobs

    def job(self, entry: Entry) -> Any:
        return self.made[entry.job]

    def listed(self) -> dict[str, Entry] | None:
        states = {number: "FAILED" if job.done() else "RUNNING" for number, job in self.made.items()}
        return {number: Entry(number, self._names[number], state, node="here") for number, state in states.items()}

    def cancel(self, jobs: Iterable[str]) -> None:
        for number in jobs:
            self.made[number].cancel()

    def process(self, job: Any) -> int:
        """The process that trains."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", job.job_id], capture_output=True, text=True, check=False)
        return int(listed.stdout.split()[0])


def configs(count: int) -> list[RunConfig]:
    return [TINY.with_(seed=seed) for seed in range(count)]


def given(engine: Jobs, runs: Sequence[RunConfig]) -> list[tuple[RunConfig, Answer]]:
    for config in runs:
        assert engine.free
        engine.give(config)
    return engine.answers(timeout=0)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that looks at everything at once."""
    for name in ("LOOK_EVERY", "READ_EVERY"):
        monkeypatch.setattr(f"faudit.sweep.slurm.{name}", 0.0)


@pytest.mark.slow
def test_jobs_that_are_killed_or_out_of_time_make_what_local_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first job is killed, and the second is told that its time is up."""
    pytest.importorskip("submitit")
    wanted = [TINY.with_(epochs=40, seed=seed) for seed in (1, 2)] + configs(1)
    store = tmp_path / "runs"
    acts = {0: signal.SIGKILL, 1: signal.SIGUSR2}

    class Hit(Jobs):
        """The engine, and what happens to its jobs."""

        def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
            for place in [place for place in acts if Run(store / wanted[place].run_id).checkpoint.exists()]:
                os.kill(queue.process([*queue.made.values()][place]), acts.pop(place))
            return super().answers(timeout=min(timeout, 0.05))

    def start(todo: Sequence[RunConfig]) -> Jobs:
        return Hit(store, None, jobs=None, queue=queue)

    queue = Processes(store, per_job=2)
    outcome = drive(wanted, store, start=Start(start))
    said = capsys.readouterr().err
    assert len(outcome.done) == 3 and not acts, said
    assert "ended as FAILED on here; retrying from its last checkpoint" in said
    assert len(queue.made) == 2 + 2, "the two runs of the killed job get a job each, and no other run gets one"
    logs = [job.stdout() or "" for job in queue.made.values()]
    assert logs[1].count("Starting with") == 2 and "Caught signal SIGUSR2" in logs[1]
    same_as_alone(wanted, store, tmp_path / "alone")


@pytest.mark.slow
def test_a_second_driver_waits_for_the_job_that_a_run_has(tmp_path: Path, soon: None) -> None:
    pytest.importorskip("submitit")
    queue = Processes(tmp_path)
    first, second = (Jobs(tmp_path, None, jobs=None, queue=queue) for _ in range(2))
    for engine in (first, second):
        assert not given(engine, [TINY]) and engine.running == [TINY]
    for engine in (first, second):
        found: list[tuple[RunConfig, Answer]] = []
        end = time.monotonic() + 120
        while not found and time.monotonic() < end:
            found = engine.answers(timeout=0.1)
        assert found == [(TINY, Answer("ended"))]
    assert len(queue.made) == 1
    assert Run(tmp_path / TINY.run_id).status == "done" and not first.running


def test_runs_are_packed_into_one_array_and_a_run_whose_job_died_gets_its_own(tmp_path: Path, soon: None) -> None:
    queue, runs = Listed(tmp_path, per_job=2), configs(5)
    engine = Jobs(tmp_path, None, jobs=2, queue=queue)
    assert not given(engine, runs)
    names = [config.run_id for config in runs]
    assert queue.arrays == [([[names[0], names[3]], [names[1], names[4]], [names[2]]], 2)]
    queue.entries["10_0"] = Entry("10_0", queue.entries["10_0"].name, "OUT_OF_MEMORY", node="n1")
    assert not engine.answers(timeout=0), "a result may come late"
    died = {config.run_id: answer for config, answer in engine.answers(timeout=0)}
    assert died == dict.fromkeys((names[0], names[3]), Answer("died", "its job 10_0 ended as OUT_OF_MEMORY on n1"))
    for place in (0, 3):
        engine.give(runs[place])
    assert not engine.answers(timeout=0) and len(queue.arrays) == 1, "two jobs are queued, and --jobs 2 allows two"
    del queue.entries["10_1"]
    engine.answers(timeout=0)
    assert (
        len(engine.answers(timeout=0)) == 2
        and not engine.answers(timeout=0)
        and queue.arrays[1:] == [([[names[0]], [names[3]]], 1)]
    )
    engine.close()
    assert queue.cancelled == ["10_2", "20_0", "20_1"]


def test_a_job_that_was_answered_is_gone_before_its_run_is_submitted_again(tmp_path: Path, soon: None) -> None:
    queue = Listed(tmp_path)
    engine = Jobs(tmp_path, None, jobs=None, queue=queue)
    given(engine, [TINY])
    engine.end("10_0", Answer("held", "by a process"))
    assert engine.answers(timeout=0) == [(TINY, Answer("held", "by a process"))]
    assert not given(engine, [TINY]) and len(queue.arrays) == 1 and engine.running == [TINY]
    queue.entries.clear()
    assert not engine.answers(timeout=0) and len(queue.arrays) == 2


def test_a_full_queue_takes_what_it_can_and_an_empty_sweep_is_told(tmp_path: Path, soon: None) -> None:
    queue, runs = Listed(tmp_path, room=3), configs(8)
    engine = Jobs(tmp_path, None, jobs=None, queue=queue)
    assert not given(engine, runs) and [len(array) for array, _ in queue.arrays] == [2]
    assert not engine.answers(timeout=0) and [len(array) for array, _ in queue.arrays] == [2, 1]
    assert not engine.answers(timeout=0) and len(engine.running) == 8, "the others wait"
    with pytest.raises(ConfigError, match=f"SLURM's queue is full: {FULL}"):
        given(Jobs(tmp_path, None, jobs=None, queue=queue), [TINY.with_(seed=99)])


def test_what_slurm_never_takes_or_starts_is_refused(tmp_path: Path, soon: None) -> None:
    queue = Listed(tmp_path, room=0)
    queue.said = "Requested node configuration is not available"
    engine = Jobs(tmp_path, None, jobs=None, queue=queue)
    assert given(engine, [TINY]) == [(TINY, Answer("refused", f"SLURM rejects its job: {queue.said}"))]
    queue.room = 9
    given(engine, [TINY])
    queue.entries["10_0"] = Entry("10_0", queue.entries["10_0"].name, "PENDING", reason="PartitionTimeLimit")
    assert engine.answers(timeout=0)[0][1].text == "SLURM will never start its job: PartitionTimeLimit"
    assert queue.cancelled == ["10_0"]


def test_a_silent_slurm_gets_no_job(tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Listed(tmp_path)
    engine = Jobs(tmp_path, None, jobs=None, queue=queue)
    given(engine, [TINY])
    monkeypatch.setattr(queue, "listed", lambda: None)
    other = TINY.with_(seed=1)
    assert not given(engine, [other]) and len(queue.arrays) == 1 and engine.running == [other, TINY]
    with pytest.raises(ConfigError, match="SLURM does not list its jobs"):
        given(Jobs(tmp_path, None, jobs=None, queue=queue), [TINY])


def test_a_large_study_is_given_in_large_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faudit.sweep.slurm.MOST", 4)
    queue, runs = Listed(tmp_path), configs(5)
    engine = Jobs(tmp_path, None, jobs=None, queue=queue)
    given(engine, runs[:4])
    assert not engine.free
    engine.end("10_0", Answer("ended"))
    engine.answers(timeout=0)
    assert not engine.free, "one place is no large part"
    engine.end("10_1", Answer("ended"))
    engine.answers(timeout=0)
    assert engine.free


def test_the_first_job_of_a_run_owns_it(tmp_path: Path) -> None:
    queue = Listed(tmp_path)
    name, other = queue.batch([["a"], ["b", "c"]]), queue.batch([["c"], ["a"]])
    jobs = [Entry("9_1", name, "PENDING"), Entry("10_0", other, "RUNNING"), Entry("10_1", other, "COMPLETING")]
    jobs.append(Entry("9_0", name, "TIMEOUT"))
    found = owners(tmp_path, {entry.job: entry for entry in jobs})
    assert {run: entry.job for run, entry in found.items()} == {"a": "10_1", "b": "9_1", "c": "9_1"}


def squeue(folder: Path, lines: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A squeue that says these lines."""
    folder.mkdir()
    (folder / "squeue").write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_job_leaves_a_run_to_the_job_that_slurm_got_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So two drivers that submit a run at the same moment train it once, even where file locks do not hold."""
    name = Listed(tmp_path / "runs").batch([[TINY.run_id]])
    lines = [f"7|N/A|{name}|PENDING|0|||", f"8|0|{name}|RUNNING|0|n1||", "3|N/A|other|RUNNING|0|n1||"]
    squeue(tmp_path / "bin", lines, monkeypatch)
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "8")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    try:
        answers = Training([TINY], tmp_path / "runs", None)()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert answers == {TINY.run_id: Answer("held", "job 7 trains it")}


@pytest.mark.parametrize("progress", [True, False])
def test_a_job_is_queued_again_only_if_it_wrote_a_checkpoint(tmp_path: Path, progress: bool) -> None:
    pytest.importorskip("submitit")
    child = os.fork()
    if not child:
        task = Training([TINY], tmp_path, None)
        task.began = task.written()
        if progress:
            run = Run(tmp_path / TINY.run_id)
            run.path.mkdir()
            run.checkpoint.write_bytes(b"")
        os._exit(0 if task.checkpoint().function is task else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if progress else STUCK)


def test_how_a_job_ended_is_said() -> None:
    assert how_it_ended(None) == "is gone from the queue"
    assert "raise --time-limit" in how_it_ended(Entry("1", "n", "FAILED", STUCK, "n1"))
    assert "--sbatch exclude=n1" in how_it_ended(Entry("1", "n", "FAILED", NOT_SHARED, "n1"))
    trace = "Job (task=0) failed during processing with trace:\n-----\nTraceback\nImportError: no faudit\n\n-----\n"
    assert last_line(trace + "You can check full logs with 'x'\n  - a\n  - b") == "ImportError: no faudit"


def test_a_store_has_one_token(tmp_path: Path) -> None:
    token = store_token(tmp_path)
    assert token.isalnum() and store_token(tmp_path) == token and store_token(tmp_path / "other") != token
    assert [path.name for path in (tmp_path / "slurm").iterdir()] == ["token"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [("90", 90), ("1:30", 2), ("0:00:30", 1), ("2:00:00", 120), ("1-0", 1440), ("1-2:3", 1563), ("1-2:3:4", 1564)],
)
def test_a_time_limit_is_read_as_sbatch_reads_it(text: str, whole: int) -> None:
    assert minutes(text) == whole


def test_an_option_of_sbatch_has_a_value_or_none() -> None:
    assert extra(["account=lab", "exclusive", "comment=a=b"]) == {"account": "lab", "exclusive": True, "comment": "a=b"}


COMMANDS = ("sbatch", "squeue", "scancel", "srun")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--partition", "gpu"), "--partition: expected with --engine slurm, got 'gpu' without. Add --engine slurm."),
        (("--sbatch", "a=b"), "--sbatch: expected with --engine slurm, got 'a=b' without. Add --engine slurm."),
        (("--engine", "slurm", "--address", "x:1"), "--address: expected with --engine ray, got 'x:1' without."),
        (("--engine", "slurm", "--time-limit", "soon"), "--time-limit: expected minutes, H:M:S or D-H:M:S above zero"),
        (("--engine", "slurm", "--time-limit", "0"), "--time-limit: expected minutes, H:M:S or D-H:M:S above zero"),
        (("--engine", "slurm", "--time-limit", "9" * 5000), "--time-limit: expected minutes, H:M:S or D-H:M:S above"),
        (("--engine", "slurm", "--jobs", "0"), "--jobs: expected a whole number ≥ 1, got 0."),
        (("--engine", "slurm", "--runs-per-job", "0"), "--runs-per-job: expected a whole number ≥ 1, got 0."),
        (("--engine", "slurm", "--sbatch", "mem=1G"), "--sbatch: mem has a flag of its own. Use --memory instead"),
        (("--engine", "slurm", "--sbatch", "array=1"), "--sbatch: faudit sets array itself, got 'array=1'."),
        (("--engine", "slurm", "--sbatch", "=1"), "--sbatch: expected KEY=VALUE with an option of sbatch, got '=1'."),
        (("--engine", "slurm", "--sbatch", "comment=a\nb"), "--sbatch: expected text on one line, got 'a\\nb'."),
        (("--engine", "slurm", "--partition", "a\nb"), "--partition: expected text on one line, got 'a\\nb'."),
    ],
)
def test_a_flag_without_sense_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    message: str,
) -> None:
    """Commands that refuse everything are there: no flag comes so far."""
    pytest.importorskip("submitit")
    (tmp_path / "bin").mkdir()
    for name in COMMANDS:
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho asked >&2; exit 1\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, *flags)
    assert (code, out) == (2, "") and err.startswith(f"faudit: {message}") and err.count("\n") == 1, err


def test_what_is_not_installed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm")
    assert code == 2 and err.startswith(
        "faudit: --engine slurm needs SLURM's command sbatch, which is not on the PATH."
    )
    monkeypatch.setitem(sys.modules, "submitit", None)
    code, _, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm")
    assert code == 2 and err.startswith("faudit: --engine slurm needs the package submitit, which is not installed.")
    assert "pip install 'faudit[slurm]'" in err and err.count("\n") == 1


def test_a_dry_run_counts_the_jobs_that_may_run(tmp_path: Path) -> None:
    """SLURM decides how many, not the cores of this machine."""
    pytest.importorskip("submitit")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        start = starter(tmp_path / "runs", data_dir=None, jobs=None)
    assert start.at_once == 1000 and start.elsewhere and not (tmp_path / "runs").exists()
