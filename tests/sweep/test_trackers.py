"""Every tracker gets every row once, says how to get its package, and leaves the environment and the network alone."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.store.run import Run
from faudit.sweep.trackers import TRACKERS
from faudit.sweep.trackers.tracker import environment, scalars
from faudit.train import fit
from tests.support.runs import TINY
from tests.support.studies import TWO_RULES, sweep

PACKAGES = {"tensorboard": ["tensorboard"], "wandb": ["wandb"], "mlflow": ["mlflow", "sqlalchemy", "alembic"]}
Steps = dict[int, dict[str, float]]  # epoch → tag → value


def of_tensorboard(folder: Path, name: str) -> Steps:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = (folder / name).iterdir()
    events = [event for event in EventFileLoader(str(file)).Load() if event.HasField("summary")]
    assert len({event.step for event in events}) == len(events)
    return {event.step: {one.tag: one.tensor.float_val[0] for one in event.summary.value} for event in events}


def of_wandb(folder: Path, name: str) -> Steps:
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    (file,) = (folder / "wandb").glob(f"offline-run-*-{name}/*.wandb")
    store: DataStore = DataStore()
    found: Steps = {}
    store.open_for_scan(str(file))
    while data := store.scan_data():
        record = Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            items = {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in record.history.item}
            assert record.history.step.num not in found
            found[record.history.step.num] = {tag: value for tag, value in items.items() if not tag.startswith("_")}
    store.close()
    return found


def of_mlflow(folder: Path, name: str) -> Steps:
    query = """SELECT m.step, m.key, m.value FROM metrics m JOIN runs r ON r.run_uuid = m.run_uuid
               WHERE r.name = ? AND r.status = 'FINISHED' AND r.lifecycle_stage = 'active'"""
    found: Steps = {}
    with sqlite3.connect(folder / "mlflow.db") as database:
        for step, tag, value in database.execute(query, (name,)):
            assert tag not in found.setdefault(step, {}), "written twice"
            found[step][tag] = value
    database.close()
    return found


READERS: dict[str, Callable[[Path, str], Steps]] = {
    "tensorboard": of_tensorboard, "wandb": of_wandb, "mlflow": of_mlflow,
}  # fmt: skip


def need(tracker: str) -> None:
    for package in PACKAGES[tracker]:
        pytest.importorskip(package)


def same(found: Steps, run: Run) -> None:
    expected = {row["epoch"]: dict(scalars(row)) for row in run.rows()}
    assert found.keys() == expected.keys() == {0, 1, 2}
    for epoch, values in expected.items():
        assert {"acc_eval", "hidden_norms/2", "gamma/1"} <= values.keys() and ("train_loss" in values) == (epoch > 0)
        assert found[epoch] == {tag: pytest.approx(value, rel=1e-6, abs=1e-30) for tag, value in values.items()}


@pytest.mark.slow
def test_every_tracker_gets_every_row_of_a_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tracker in TRACKERS:
        need(tracker)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "online")  # in vain
    done = fit(TINY, tmp_path / "runs")
    before = dict(os.environ)  # here, since torch sets a variable of its own
    for _ in range(2):  # again: nothing is told twice
        flags = [word for tracker in TRACKERS for word in (f"--{tracker}", str(tmp_path / tracker))]
        assert sweep(capsys, tmp_path, TWO_RULES, "--jobs", "1", *flags)[0] == 0
    for name in (done.name, TINY.with_(rule="dfa").run_id):
        for tracker, read in READERS.items():
            same(read(tmp_path / tracker, name), Run(tmp_path / "runs" / name))
    assert dict(os.environ) == before and not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize("tracker", TRACKERS)
def test_train_feeds_a_tracker_too_and_an_unfinished_record_is_replaced(tmp_path: Path, tracker: str) -> None:
    need(tracker)
    board, runs = tmp_path / "board", tmp_path / "runs"
    half = TRACKERS[tracker](board)
    half.open()
    half.begin(TINY).close("stopped")
    half.close()
    if tracker == "tensorboard":  # it keeps the old file and discards its events when it reads
        (old,) = (board / TINY.run_id).iterdir()
        old.unlink()
    flags = ["--data", "digits", "--epochs", "2", "--width", "8", "--depth", "2", "--batch-size", "256"]
    for _ in range(2):
        assert main(["train", *flags, "--runs", str(runs), f"--{tracker}", str(board)]) == 0
    same(READERS[tracker](board, TINY.run_id), Run(runs / TINY.run_id))


@pytest.mark.parametrize("tracker", TRACKERS)
def test_without_its_package_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    package = PACKAGES[tracker][0]
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = sweep(capsys, tmp_path, TWO_RULES, f"--{tracker}", str(tmp_path / "board"))
    assert code == 2 and f"pip install 'faudit[{tracker}]'" in err and err.count("\n") == 1


NO_NETWORK = """
import socket, sys
def refuse(event, args):
    if event == "socket.connect" and args[0].family in (socket.AF_INET, socket.AF_INET6):
        print("connects to", args[1], file=sys.stderr)
    if event == "socket.getaddrinfo":
        print("looks up", args[0], file=sys.stderr)
sys.addaudithook(refuse)
from faudit.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_no_tracker_asks_for_a_connection(tmp_path: Path) -> None:
    for tracker in TRACKERS:
        need(tracker)
    fit(TINY, tmp_path / "runs")
    flags = ["--data", "digits", "--epochs", "2", "--width", "8", "--depth", "2", "--batch-size", "256"]
    trackers = [word for tracker in TRACKERS for word in (f"--{tracker}", str(tmp_path / tracker))]
    words = ["train", *flags, "--runs", str(tmp_path / "runs"), *trackers]
    done = subprocess.run([sys.executable, "-c", NO_NETWORK, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), environment(KEPT="2", FRESH="3"):
        assert (os.environ["KEPT"], os.environ["FRESH"]) == ("2", "3")
        os.environ["OTHER"] = "4"
        del os.environ["PATH"]
        raise ZeroDivisionError
    assert dict(os.environ) == before


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard")
    words = ["train", "--data", "cifar10", "--data-dir", str(tmp_path / "none"), "--runs", str(tmp_path / "runs")]
    assert main([*words, "--tensorboard", str(tmp_path / "board")]) == 2
    assert not (tmp_path / "board").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("")
    code, _, err = sweep(capsys, tmp_path, TWO_RULES, "--tensorboard", str(tmp_path / "file" / "board"))
    assert code == 2 and err.count("\n") == 1 and "file" in err
