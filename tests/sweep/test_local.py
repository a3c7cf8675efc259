"""Many runs in worker processes: each is trained once and equals a run trained alone, even if others die or fail."""

from __future__ import annotations

import json
import multiprocessing.context
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store.run import Run
from faudit.sweep.drive import Outcome
from faudit.sweep.local import run_all
from faudit.train import fit
from tests.support.processes import is_alive, workers_of
from tests.support.runs import TINY, same_as_alone, until

FOUR = [TINY.with_(rule=rule, seed=seed) for rule in ("bp", "dfa") for seed in (1, 2)]
LONG = [TINY.with_(rule="dfa", epochs=40, log_every=5, seed=seed) for seed in (1, 2)]  # seconds: time to be killed in
DIVERGES = TINY.with_(lr=1e30, optimizer="sgd")
PARENT = """
import json, sys
from pathlib import Path
from faudit.config import RunConfig
from faudit.sweep.local import run_all
configs = [RunConfig.parse(settings, where="test") for settings in json.loads(sys.argv[2])]
try:
    outcome = run_all(configs, Path(sys.argv[1]), data_dir=None, jobs=int(sys.argv[3]))
except KeyboardInterrupt:
    sys.exit(130)
print(json.dumps(vars(outcome)))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of runs trained by ``fit`` alone, one after another. The tests share it."""
    return tmp_path_factory.mktemp("alone")


def names(configs: list[RunConfig]) -> list[str]:
    return [config.run_id for config in configs]


def parent(store: Path, configs: list[RunConfig], *, jobs: int, code: str = PARENT) -> subprocess.Popen[str]:
    """A sweep in its own process and process group."""
    settings = json.dumps([config.to_json() for config in configs])
    words = [sys.executable, "-c", code, str(store), settings, str(jobs)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def ended(sweep: subprocess.Popen[str]) -> tuple[str, str]:
    """End a sweep that is stuck, and return its output."""
    os.killpg(sweep.pid, signal.SIGKILL)
    return sweep.communicate()


def is_under_way(store: Path, config: RunConfig) -> bool:
    run = Run(store / config.run_id)
    return run.status == "running" and run.checkpoint.exists()


def none_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "start", start)


@pytest.mark.slow
def test_runs_made_side_by_side_are_those_made_alone_and_are_made_once(
    tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run_all([*FOUR, FOUR[0]], tmp_path, data_dir=None, jobs=2)  # one is asked for twice
    assert outcome == Outcome(done=names(FOUR), failed={}, left={})
    same_as_alone(FOUR, tmp_path, alone)
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert all("  done  acc 0." in line and "‖h_L‖" in line and line.endswith(" s") for line in said)

    none_may_start(monkeypatch)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path).rglob("*.json*")}
    assert run_all(FOUR, tmp_path, data_dir=None, jobs=2) == outcome
    assert {path: path.stat().st_mtime_ns for path in (tmp_path).rglob("*.json*")} == before
    assert capsys.readouterr().err == ""
    assert run_all([], tmp_path, data_dir=None, jobs=2) == Outcome(done=[], failed={}, left={})


def test_the_parent_needs_no_torch_where_nothing_is_to_do(tmp_path: Path) -> None:
    fit(TINY, tmp_path)
    out, err = parent(tmp_path, [TINY], jobs=2, code=PARENT + "\nassert 'torch' not in sys.modules").communicate(
        timeout=60
    )
    assert json.loads(out) == {"done": [TINY.run_id], "failed": {}, "left": {}} and err == ""


def test_fewer_than_one_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jobs: expected a whole number ≥ 1, got 0"):
        run_all(FOUR, tmp_path, data_dir=None, jobs=0)


def test_what_cannot_be_made_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    no_files = TINY.with_(data="cifar10")
    damaged, overwritten, finished = (TINY.with_(seed=seed) for seed in (11, 12, 13))
    for config in (damaged, overwritten):
        (tmp_path / config.run_id).mkdir()
        (tmp_path / config.run_id / "config.json").write_text("{")
    (tmp_path / overwritten.run_id / "done.json").write_text("{}")
    fit(finished, tmp_path)
    (tmp_path / finished.run_id / "config.json").write_text(
        (tmp_path / finished.run_id / "config.json").read_text().replace('"seed": 13', '"seed": 99')
    )
    odd = [DIVERGES, no_files, damaged, overwritten, finished]
    outcome = run_all([*odd, *FOUR[:2]], tmp_path, data_dir=tmp_path / "nowhere", jobs=1)
    assert outcome.done == names(FOUR[:2])
    assert list(outcome.failed) == [DIVERGES.run_id] and "diverged" in outcome.failed[DIVERGES.run_id]
    assert list(outcome.left) == names([no_files, damaged, overwritten, finished])
    assert "nowhere" in outcome.left[no_files.run_id]
    assert "config.json is damaged" in outcome.left[damaged.run_id]
    assert "config.json is damaged" in outcome.left[overwritten.run_id]
    assert "config.json is damaged: its settings are those of" in outcome.left[finished.run_id]
    assert all("\n" not in line for line in outcome.left.values())
    said = capfd.readouterr().err
    assert f"{no_files.run_id}  left out  " in said and f"{DIVERGES.run_id}  failed  diverged" in said
    none_may_start(monkeypatch)
    assert run_all([DIVERGES], tmp_path, data_dir=None, jobs=1).failed == outcome.failed, (
        "a failed run is not trained again"
    )


@pytest.mark.slow
def test_a_killed_worker_costs_no_run_and_changes_none(
    tmp_path: Path, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []

    def kill() -> None:
        if until(lambda: is_under_way(tmp_path, LONG[0])):
            killed.extend(workers_of(os.getpid())[:1])  # by age: the first was given the first run
            os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = run_all([LONG[0], TINY], tmp_path, data_dir=None, jobs=2)
    killer.join()
    assert outcome == Outcome(done=names([LONG[0], TINY]), failed={}, left={}) and len(killed) == 1
    assert capsys.readouterr().err.count("its worker was ended by SIGKILL; retrying") == 1
    same_as_alone([LONG[0], TINY], tmp_path, alone)


def test_a_run_whose_workers_die_again_and_again_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed: set[int] = set()
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            for worker in set(workers_of(os.getpid())) - killed:
                killed.add(worker)
                os.kill(worker, signal.SIGKILL)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = run_all([TINY.with_(epochs=200)], tmp_path, data_dir=None, jobs=2)
    over.set()
    killer.join()
    assert len(killed) == 3 and not outcome.done
    assert list(outcome.left.values()) == [
        "its worker was ended by SIGKILL. 3 attempts made no progress. Check its memory and disk."
    ]
    assert capsys.readouterr().err.count("retrying") == 2


@pytest.mark.slow
def test_workers_leave_with_a_killed_parent_and_the_same_call_goes_on(tmp_path: Path, alone: Path) -> None:
    first = parent(tmp_path, LONG[:1], jobs=2)
    assert until(lambda: is_under_way(tmp_path, LONG[0])), ended(first)
    workers = workers_of(first.pid)
    first.kill()
    first.communicate()
    assert len(workers) == 1 and until(lambda: not any(map(is_alive, workers)), seconds=15)
    assert Run(tmp_path / LONG[0].run_id).status == "stopped"
    assert run_all(LONG[:1], tmp_path, data_dir=None, jobs=2).done == names(LONG[:1])
    same_as_alone(LONG[:1], tmp_path, alone)


def test_an_interrupt_stops_workers_that_are_starting(tmp_path: Path) -> None:
    sweep = parent(tmp_path, FOUR, jobs=2)
    assert until(lambda: workers_of(sweep.pid)), ended(sweep)
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: to the workers too
    assert sweep.communicate(timeout=60) == ("", "") and sweep.returncode == 130
    assert not workers_of(sweep.pid)


@pytest.mark.slow
def test_an_interrupt_stops_workers_that_are_training(tmp_path: Path) -> None:
    endless = TINY.with_(epochs=100_000)
    sweep = parent(tmp_path, [endless], jobs=2)
    assert until(lambda: is_under_way(tmp_path, endless)), ended(sweep)
    workers = workers_of(sweep.pid)
    os.kill(sweep.pid, signal.SIGTERM)
    assert sweep.communicate(timeout=60) == ("", "") and sweep.returncode == 130
    assert len(workers) == 1 and not is_alive(workers[0])
    assert Run(tmp_path / endless.run_id).status == "stopped"


@pytest.mark.slow
def test_two_parents_on_one_store_share_the_work(tmp_path: Path, alone: Path) -> None:
    configs = [*LONG, *FOUR[:2]]
    both = [parent(tmp_path, configs, jobs=1) for _ in range(2)]
    said = [sweep.communicate(timeout=120) for sweep in both]
    assert [json.loads(out) for out, _ in said] == [{"done": names(configs), "failed": {}, "left": {}}] * 2
    for config in configs:
        epochs = [row["epoch"] for row in Run(tmp_path / config.run_id).rows()]
        assert len(epochs) == len(set(epochs))
    same_as_alone(configs, tmp_path, alone)


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_trained_once_it_is_free(tmp_path: Path) -> None:
    held = Run(tmp_path / FOUR[0].run_id)
    taken = threading.Event()

    def hold() -> None:
        with held.locked():
            taken.set()
            until(lambda: Run(tmp_path / FOUR[1].run_id).status == "done")
            time.sleep(0.5)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    outcome = run_all(FOUR[:2], tmp_path, data_dir=None, jobs=1)
    holder.join()
    assert outcome == Outcome(done=names(FOUR[:2]), failed={}, left={})
    assert [row["epoch"] for row in held.rows()] == [0, 1, 2]
