"""Runs on a Ray cluster equal local runs bit for bit, even if a node is lost. Each refusal is one line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.errors import ConfigError
from faudit.store.run import Run
from faudit.sweep import ray as engine
from faudit.sweep.drive import Outcome, drive
from faudit.sweep.engine import Answer
from faudit.sweep.ray import Tasks
from faudit.sweep.run_update import RunUpdate
from faudit.sweep.study import read
from faudit.train import fit, stream
from tests.support.clusters import two_nodes
from tests.support.idx_files import write as write_idx
from tests.support.runs import TINY, same_as_alone, until

STUDY = """
width = 8
depth = 2
[grid]
rule = ["bp", "dfa"]
seed = [1, 2]
epochs = [60]
batch-size = [64]
[[include]]
data = "mnist"
epochs = 2
batch-size = 2
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alone")


@pytest.mark.slow
def test_a_lost_node_costs_no_run_and_changes_none(tmp_path: Path, alone: Path) -> None:
    """Only the driver has the data: /proc/self/cwd is another folder for every node's workers."""
    pytest.importorskip("ray")
    write_idx(tmp_path / "driver" / "mnist")
    (tmp_path / "study.toml").write_text(STUDY)
    configs = read(tmp_path / "study.toml")
    store = tmp_path / "runs"
    with two_nodes(tmp_path / "nodes") as (cluster, address):
        words = ["sweep", str(tmp_path / "study.toml"), "--runs", str(store), "--data-dir", "/proc/self/cwd"]
        words += ["--engine", "ray", "--address", address]
        sweep = subprocess.Popen(
            [sys.executable, "-m", "faudit", *words], cwd=tmp_path / "driver", stderr=subprocess.PIPE, text=True
        )
        halfway = until(lambda: sum(Run(store / one.run_id).checkpoint.exists() for one in configs) >= 2, 120)
        running = [one for one in configs if Run(store / one.run_id).status == "running"]
        print("kill", file=cluster.stdin, flush=True)
        assert cluster.stdout is not None and cluster.stdout.readline() == "killed\n"
        _, said = sweep.communicate(timeout=240)
    assert halfway and len(running) == 2, said
    assert sweep.returncode == 0 and "retrying from its last checkpoint" in said, said
    assert "mnist was not found on a node, so the driver sends it there" in said
    same_as_alone(configs[:4], store, alone)
    here = fit(configs[4], alone, tmp_path / "driver")
    there = Run(store / configs[4].run_id)
    assert there.environment()["data_sha256"] == here.environment()["data_sha256"]
    assert (there.outcome() or {})["weights_sha256"] == (here.outcome() or {})["weights_sha256"]


@pytest.mark.slow
def test_a_node_that_cannot_train_is_given_no_more_and_costs_no_run(tmp_path: Path, alone: Path) -> None:
    """The node fails at once, so Ray would send it one run after another."""
    pytest.importorskip("ray")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['faudit'] = None\n")  # as if not installed
    text = "data = 'digits'\nwidth = 8\ndepth = 2\nbatch-size = 256\n[grid]\nepochs = [2]\nseed = [1, 2, 3, 4, 5, 6]\n"
    (tmp_path / "study.toml").write_text(text)
    with two_nodes(tmp_path / "nodes", str(tmp_path)) as (_, address):
        words = ["sweep", str(tmp_path / "study.toml"), "--runs", str(tmp_path / "runs")]
        words += ["--engine", "ray", "--address", address]
        done = subprocess.run([sys.executable, "-m", "faudit", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("6 done, 0 failed, 0 left out"), done.stderr
    assert done.stderr.count("gives no more runs to node") == 1, done.stderr
    assert (
        2
        <= done.stderr.count("ModuleNotFoundError: No module named 'faudit.sweep'; 'faudit' is not a package; retrying")
        <= 3
    )
    same_as_alone(read(tmp_path / "study.toml"), tmp_path / "runs", alone)


@pytest.mark.slow
def test_ray_on_this_machine_makes_ends_and_resumes_what_local_would(tmp_path: Path, alone: Path) -> None:
    """The driver runs in its own process, as every Ray driver here does."""
    pytest.importorskip("ray")
    resumed = TINY.with_(epochs=9, keep_epochs=(1, 8))
    begun = stream(resumed, Run(tmp_path / resumed.run_id))
    [next(begun) for _ in range(4)]
    begun.close()  # type: ignore[attr-defined]  # stream is a generator
    text = "data = 'digits'\nwidth = 8\ndepth = 2\nbatch-size = 256\n[grid]\nepochs = [9]\nkeep-epochs = [[1, 8]]\n"
    more = "[[include]]\nepochs = 2\n[[include]]\nepochs = 2\nlr = 1e30\noptimizer = 'sgd'\n"
    (tmp_path / "study.toml").write_text(text + more)
    words = ["sweep", str(tmp_path / "study.toml"), "--runs", str(tmp_path), "--engine", "ray", "--jobs", "1"]
    elsewhere = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}  # of a cluster that is not asked for
    command = [sys.executable, "-m", "faudit", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=elsewhere)
    assert done.returncode == 1 and done.stdout.startswith("2 done, 1 failed, 0 left out"), done.stderr
    assert "diverged" in done.stderr
    same_as_alone([resumed, TINY], tmp_path, alone)
    assert all(Run(tmp_path / resumed.run_id).kept(epoch).exists() for epoch in (1, 8))


@pytest.mark.slow
def test_an_interrupt_stops_ray_on_this_machine_within_seconds(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "study.toml").write_text(
        "data = 'digits'\nwidth = 8\ndepth = 2\n[grid]\nepochs = [100000]\nseed = [1, 2]"
    )
    words = ["sweep", str(tmp_path / "study.toml"), "--runs", str(tmp_path / "runs"), "--engine", "ray", "--jobs", "1"]
    sweep = subprocess.Popen([sys.executable, "-m", "faudit", *words], stderr=subprocess.PIPE, text=True)
    try:
        runs = [Run(tmp_path / "runs" / config.run_id) for config in read(tmp_path / "study.toml")]
        assert until(lambda: runs[0].checkpoint.exists(), 120)
        started = time.monotonic()
        sweep.send_signal(signal.SIGINT)
        _, said = sweep.communicate(timeout=60)
        assert sweep.returncode == 130 and time.monotonic() - started < 15
        assert "interrupted. The same command goes on from the last checkpoint." in said and "Traceback" not in said
        assert [run.status for run in runs] == ["stopped", "new"]
    finally:
        sweep.kill()


@pytest.mark.parametrize("address", ["nonsense", "ray://host:1", "host:99999", "localhost"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
    pytest.importorskip("ray")
    (tmp_path / "s.toml").write_text("[grid]\nseed = [1]\n")
    words = ["sweep", str(tmp_path / "s.toml"), "--runs", str(tmp_path / "r"), "--engine", "ray", "--address", address]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "expected HOST:PORT of a Ray cluster's head" in err and err.count("\n") == 1


def test_an_address_where_nothing_is_takes_seconds_and_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    (tmp_path / "s.toml").write_text("[grid]\nseed = [1]\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # bound and not listening: refused
        started = time.monotonic()
        assert main(["sweep", str(tmp_path / "s.toml"), "--engine", "ray", "--address", address]) == 2
    err = capsys.readouterr().err
    assert f"no Ray cluster at {address}: Connection refused" in err and err.count("\n") == 1
    assert time.monotonic() - started < 20 and not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_an_address_that_never_answers_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(engine, "ANSWER", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Exception, match="no answer in 3 s"):
        engine.must_answer(f"127.0.0.1:{silent.getsockname()[1]}")


def test_without_ray_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "s.toml").write_text("[grid]\nseed = [1]\n")
    assert main(["sweep", str(tmp_path / "s.toml"), "--runs", str(tmp_path / "r"), "--engine", "ray"]) == 2
    err = capsys.readouterr().err
    assert "pip install 'faudit[ray]'" in err and err.count("\n") == 1 and not (tmp_path / "r").exists()


def tasks(
    monkeypatch: pytest.MonkeyPatch, store: Path, *, jobs: int | None, threads: Sequence[int]
) -> tuple[Tasks, float]:
    """The engine on a Ray that is not really started, and the number of CPUs that it asked for."""
    ray = pytest.importorskip("ray")
    resources: dict[str, float] = {}
    node = {"Alive": True, "NodeID": "a", "NodeManagerHostname": "host", "Resources": resources}
    monkeypatch.setattr(ray, "init", lambda **kinds: resources.update(CPU=kinds["num_cpus"]))
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    monkeypatch.setattr(engine, "cores", lambda: 4)
    todo = [TINY.with_(threads=count) for count in threads]
    return Tasks(store, None, jobs=jobs, address=None, todo=todo), resources["CPU"]


@pytest.mark.parametrize(("jobs", "threads", "processors"), [(None, 2, 4), (None, 8, 8), (3, 2, 6)])
def test_ray_on_this_machine_has_the_processors_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int | None, threads: int, processors: int
) -> None:
    assert tasks(monkeypatch, tmp_path, jobs=jobs, threads=[threads, 1])[1] == processors


def test_a_run_that_no_node_has_room_for_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, _ = tasks(monkeypatch, tmp_path, jobs=1, threads=[1])
    gpu = TINY.with_(device="cuda")
    some.give(gpu)
    (answer,) = some.answers(timeout=0)
    assert answer[0] == gpu and answer[1].word == "refused"
    assert "needs 1 CPU and 1 GPU on one node: the cluster has no such node" in answer[1].text


def test_a_run_that_another_driver_did_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some, _ = tasks(monkeypatch, tmp_path, jobs=1, threads=[1])
    fit(TINY, tmp_path)
    some.give(TINY)
    assert some.answers(timeout=0) == [(TINY, Answer("ended", "by another process"))]


class Sent:
    """Replaces a remote function: each task's stream is the next one of a list. Records the options of each task."""

    def __init__(self, *streams: list[object]) -> None:
        self._streams, self.asked = list(streams), list[dict[str, object]]()

    def options(self, **asked: object) -> Sent:
        self.asked.append(asked)
        return self

    def remote(self, *_: object) -> Iterator[object]:
        return iter(self._streams.pop(0))


def scripted(
    monkeypatch: pytest.MonkeyPatch, store: Path, sent: Sent, *, jobs: int | None = 1, threads: Sequence[int] = (1,)
) -> Tasks:
    """The engine with scripted tasks; every stream is ready at once."""
    ray = pytest.importorskip("ray")

    def get(thing: object) -> object:
        if isinstance(thing, Exception):
            raise thing
        return thing

    monkeypatch.setattr(ray, "remote", lambda **_: lambda function: sent)
    monkeypatch.setattr(ray, "wait", lambda streams, **_: (streams, []))
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "cancel", lambda *_, **__: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return tasks(monkeypatch, store, jobs=jobs, threads=threads)[0]


def test_a_run_of_many_threads_does_not_hold_up_those_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = scripted(monkeypatch, tmp_path, Sent(*[[]] * 4), jobs=None, threads=[4, 1])
    for seed in range(4):
        assert some.free
        some.give(TINY.with_(seed=seed))
    assert not some.free and len(some.running) == 4
    some.close()


def test_what_a_task_raises_is_its_nodes_fault_and_twice_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    error = ray.exceptions.RayTaskError("train", "Traceback\nConfigError: no torch", ConfigError("no torch"))
    full = RunUpdate(Answer("disk", "cannot use /tmp: No space left on device"))
    ends = [["a", full], ["a", RunUpdate(Answer("ended"))], ["a", error.as_instanceof_cause()], ["a", full]]
    sent, said = Sent(*ends), list[Answer]()
    some = scripted(monkeypatch, tmp_path, sent)
    for _ in range(5):
        some.give(TINY)
        said += [answer for _, answer in some.answers(timeout=0)]
    assert [answer.word for answer in said] == ["died", "ended", "died", "died", "refused"]
    assert "node host: cannot use /tmp" in said[0].text and said[2].text == "node host: ConfigError: no torch"
    assert [len(answer.remarks) for answer in said] == [0, 0, 0, 1, 0], "only the second in a row is too many"
    assert "gives no more runs to node host" in said[3].remarks[0]
    assert said[4].text.startswith(
        "needs 1 CPU on one node: the cluster has no such node that works (node host: cannot"
    )
    assert len(sent.asked) == 4 and not any("scheduling_strategy" in asked for asked in sent.asked)


def test_a_stop_frees_the_runs_then_ends_the_tasks_then_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    some, steps = scripted(monkeypatch, tmp_path, Sent([])), list[str]()
    run = Run(tmp_path / TINY.run_id)

    def cancel(_: object, *, force: bool) -> None:
        with run.locked():
            steps.append(f"cancel {force}")

    monkeypatch.setattr(ray, "cancel", cancel)
    monkeypatch.setattr(ray, "shutdown", lambda: steps.append("shutdown"))
    some.give(TINY)
    some.close()
    assert steps == ["cancel True", "shutdown"]


def test_nothing_to_do_starts_no_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    fit(TINY, tmp_path)
    start = engine.starter(tmp_path, data_dir=None, jobs=1)
    assert drive([TINY], tmp_path, start=start) == Outcome(done=[TINY.run_id], failed={}, left={})
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
