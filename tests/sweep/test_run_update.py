"""A node sends the same files that a local run writes; the folders of killed tasks are removed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest

from faudit.config import RunConfig
from faudit.data import DATASETS
from faudit.store import checkpoint
from faudit.store.run import Run
from faudit.sweep import run_update as node
from faudit.sweep.run_update import NEEDS_DATA, NEXT, Fetch, RunUpdate, parts_of, train, unpacked, write_down
from faudit.train import fit, stream
from tests.support.nets import tiny_dataset
from tests.support.runs import TINY, identical


@pytest.fixture(autouse=True)
def own_tmp(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that no other process uses."""
    folder = tmp_path_factory.mktemp("node")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def sent(settings: RunConfig, store: Path, fetch: Fetch | None = None) -> Iterator[RunUpdate]:
    """The updates of a task that receives the files of its run from the driver's store."""
    run = Run(store / settings.run_id)
    files = {path.name: path.read_bytes() for path in run.path.glob("*.*")} if run.path.exists() else {}
    return train(settings.to_json(), files, None, fetch, str(store))


def epoch_of(update: RunUpdate, scratch: Path) -> int | None:
    """The epoch of the checkpoint in an update."""
    if "last.safetensors" not in update.files:
        return None
    (scratch / "c").write_bytes(update.files["last.safetensors"])
    return int(checkpoint.load(scratch / "c")[1]["epoch"])


def test_a_node_without_the_data_asks_for_it_and_trains_on_what_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "CHECKPOINT_EVERY", 3600.0)
    config = TINY.with_(data="mnist", batch_size=20)
    (only,) = sent(config, tmp_path)
    assert only.answer.word == NEEDS_DATA
    data = tiny_dataset()
    updates = list(sent(config, tmp_path, lambda: parts_of(data)))
    run = Run(tmp_path / config.run_id)
    calm = [dict(row) for row in stream(config, run, dataset=data)]
    assert [update.answer.word for update in updates] == [NEXT] * 3 + ["ended"]
    assert b"".join(update.rows for update in updates).count(b"\n") == len(calm) == 3
    assert [update.afresh for update in updates] == [True, False, False, False]
    assert list(updates[0].files) == ["env.json", "config.json"]
    assert list(updates[-1].files) == ["last.safetensors", "done.json"]
    theirs, ours = json.loads(updates[-1].files["done.json"]), run.outcome() or {}
    assert all(theirs[name] == ours[name] for name in ("weights_sha256", "run_id", "rows"))


def test_a_node_that_has_the_data_fetches_none(tmp_path: Path) -> None:
    def fetch() -> dict[str, object]:
        raise AssertionError("fetched")

    assert [update.answer.word for update in sent(TINY, tmp_path, fetch)][-1] == "ended"


def test_a_dataset_is_the_same_after_the_journey() -> None:
    data = DATASETS["digits"](None)
    assert unpacked("digits", lambda: parts_of(data)).fingerprint() == data.fingerprint()


@pytest.mark.parametrize("log_every", [1, 4, 20])
def test_every_checkpoint_leaves_when_it_is_written_however_rare_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_every: int
) -> None:
    monkeypatch.setattr(node, "CHECKPOINT_EVERY", 0.0)
    updates = list(sent(TINY.with_(epochs=8, log_every=log_every), tmp_path))
    came = [epoch for update in updates if (epoch := epoch_of(update, tmp_path)) is not None]
    assert came == list(range(9)), "each once"
    monkeypatch.setattr(node, "CHECKPOINT_EVERY", 3600.0)
    updates = list(sent(TINY.with_(epochs=8, log_every=log_every), tmp_path))
    assert [epoch_of(update, tmp_path) for update in updates if update.files][-1] == 8
    assert sum("last.safetensors" in update.files for update in updates) == 1


def test_a_lost_task_costs_what_came_after_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "CHECKPOINT_EVERY", 0.0)
    config = TINY.with_(epochs=9, log_every=100, keep_epochs=(2, 7))
    run = Run(tmp_path / "driver" / config.run_id)
    run.path.mkdir(parents=True)
    lost = sent(config, tmp_path / "driver")
    for update in lost:
        write_down(update, run)
        if epoch_of(update, tmp_path) == 5:
            break
    lost.close()  # type: ignore[attr-defined]  # train is a generator
    assert run.kept(2).exists() and len(run.rows()) == 1
    again = list(sent(config, tmp_path / "driver"))
    for update in again:
        write_down(update, run)
    assert [epoch for update in again if (epoch := epoch_of(update, tmp_path)) is not None] == [6, 7, 8, 9]
    identical(run, fit(config, tmp_path / "calm"))
    assert run.kept(2).read_bytes() == Run(tmp_path / "calm" / config.run_id).kept(2).read_bytes()
    assert run.kept(7).exists()


def test_what_a_task_refuses_comes_back_as_an_answer(tmp_path: Path) -> None:
    (last,) = sent(TINY.with_(clip=2.0), tmp_path)
    assert last.answer.word == "refused" and "does not read clip" in last.answer.text


def test_a_refusal_names_the_drivers_file(tmp_path: Path, own_tmp: Path) -> None:
    run = fit(TINY, tmp_path)
    (run.path / "done.json").unlink()
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:-5])
    (last,) = sent(TINY, tmp_path)
    assert last.answer.word == "refused" and str(run.checkpoint) in last.answer.text
    assert str(own_tmp) not in last.answer.text


def test_a_full_disk_of_a_node_is_told_as_the_nodes(
    tmp_path: Path, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (last,) = sent(TINY, tmp_path)
    assert last.answer.word == "disk" and f"cannot use {own_tmp}" in last.answer.text


def test_a_run_that_raises_sends_all_it_has_and_its_traceback_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object) -> float:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("faudit.train.one_epoch", bug)
    *_, last = updates = list(sent(TINY, tmp_path))
    assert last.answer.word == "raised" and last.answer.text == "met a bug: ZeroDivisionError('of all things')"
    assert sum("Traceback" in said for update in updates for said in update.answer.remarks) == 1
    assert epoch_of(last, tmp_path) == 0 and "config.json" in updates[0].files


def test_a_task_clears_away_what_a_killed_one_left_and_nothing_else(own_tmp: Path) -> None:
    names = ["faudit-task-left", "faudit-task-held", "faudit-task-young", "faudit-task-lockless", "faudit-other"]
    left, held, young, lockless, other = folders = [own_tmp / name for name in names]
    for folder in folders:
        (folder / "run").mkdir(parents=True)
        (folder / "lock").touch()
        os.utime(folder / "lock", (0, 0))
    (young / "lock").touch()
    (lockless / "lock").unlink()
    (own_tmp / "faudit-task-file").touch()
    (own_tmp / "faudit-task-link").symlink_to(other)
    with filelock.FileLock(held / "lock"), node.locked_folder() as own:
        os.utime(own / "lock", (0, 0))
        node.remove_leftovers()
        assert not left.exists() and own.exists()
    kept = [held, young, lockless, other, own_tmp / "faudit-task-file", own_tmp / "faudit-task-link"]
    assert sorted(own_tmp.iterdir()) == sorted(kept) and (other / "run").exists()
