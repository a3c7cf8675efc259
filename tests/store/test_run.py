"""A run directory tells the truth whatever was interrupted, and refuses what it cannot read in one line."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store.rows import to_line
from faudit.store.run import ENDED, Run, Status, runs_in
from tests.support.fabricate import row

ENV = {"faudit": "0", "torch": "1", "cpu": "x", "data_sha256": "abc"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "runs" / RunConfig().run_id)
    with run.locked():
        run.begin(RunConfig(), ENV)
    return run


def test_status_is_which_files_exist(tmp_path: Path) -> None:
    run = Run(tmp_path / "store" / "a")
    assert run.status == "new"
    with run.locked():
        assert run.status == "new"  # nothing asked yet
        run.begin(RunConfig(), ENV)
        assert run.status == "running"
    assert run.status == "stopped"
    run.finish({"epochs": 1})
    assert run.status == "done" and run.outcome() == {"epochs": 1, **run.ties()}


@pytest.mark.parametrize("status", Status)
def test_a_status_is_its_word_everywhere(status: Status) -> None:
    """In messages, in JSON by either writer, as a key, and read back from a file."""
    assert str(status) == f"{status}" == status.value and status == status.value
    assert json.dumps(status) == orjson.dumps(status).decode() == f'"{status.value}"'
    assert {status: 1}[status.value] == 1 and Status(status.value) is status  # type: ignore[index]  # equal as keys
    assert (status.value in ENDED) is (status.value in ("done", "failed"))


def test_a_failed_run_says_why(run: Run) -> None:
    run.fail({"reason": "diverged"})
    assert run.status == "failed" and run.outcome() == {"reason": "diverged", **run.ties()}


def test_rows_append_and_a_torn_line_is_not_a_row(run: Run) -> None:
    for epoch in range(4):
        run.append(row(RunConfig(), epoch, random.Random(0)) | {"gamma": [None, 0.0, float("inf"), 0.5]})
    whole = run.rows()
    assert [row["epoch"] for row in whole] == [0, 1, 2, 3]
    data = run.rows_file.read_bytes()
    for cut in range(len(data)):
        run.rows_file.write_bytes(data[:cut])
        assert run.rows() == whole[: data[:cut].count(b"\n")]
    run.rows_file.write_bytes(data + b'{"epoch": 4, "gam')
    run.keep_rows(until=2)
    assert [row["epoch"] for row in run.rows()] == [0, 1, 2]
    run.append(row(RunConfig(), 3, random.Random(0)))
    assert [row["epoch"] for row in run.rows()] == [0, 1, 2, 3]


def test_a_damaged_line_is_named(run: Run) -> None:
    lines = [to_line(row(RunConfig(), epoch, random.Random(0))) for epoch in range(3)]
    run.rows_file.write_text(lines[0] + "garbage\n" + lines[1])
    with pytest.raises(StoreError, match=rf"{run.path}/rows.jsonl, line 2 is damaged: expected a row of JSON"):
        run.rows()
    with pytest.raises(StoreError, match="line 2 is damaged"):
        run.last_rows({})
    run.rows_file.write_text(lines[0] + lines[1] + lines[2].replace('"gamma": [', '"gamma": [[], '))
    for read in (run.rows, lambda: run.last_rows({})):
        with pytest.raises(
            StoreError, match=r"rows.jsonl, line 3 is damaged: gamma: expected a list of 4 numbers, got"
        ):
            read()


def test_the_last_row_alone_is_the_last_of_all_rows(run: Run) -> None:
    assert run.last_rows({}) == run.rows() == []
    for epoch in range(3):
        run.append(row(RunConfig(), epoch, random.Random(0)))
    assert run.last_rows({}) == run.rows()[-1:] and len(run.rows()) == 3


def test_rows_that_are_linked_to_themselves_get_one_line(run: Run) -> None:
    run.rows_file.symlink_to(run.rows_file.name)
    for read in (run.rows, lambda: run.last_rows({})):
        with pytest.raises(StoreError, match="cannot use"):
            read()


def test_the_same_question_is_welcome_and_another_is_not(run: Run) -> None:
    assert run.begin(RunConfig(), ENV) == []
    assert "torch was 1, is now 2" in run.begin(RunConfig(), {**ENV, "torch": "2"})[0]
    with pytest.raises(StoreError, match="another configuration"):
        run.begin(RunConfig(lr=0.5), ENV)
    with pytest.raises(StoreError, match="digits files are not those"):
        run.begin(RunConfig(), {**ENV, "data_sha256": "other"})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"format": 2, "config": {}}', "made by a newer version"),
        ('{"format": 1}', "expected an object under 'config'"),
        ('{"format": 1, "config": {"warp": 9}}', "unknown setting 'warp'"),
        ('{"format": 1, "config": {"depth": 0}}', "depth: expected"),
        ('{"format": 1, ', "expected JSON"),
        ("[]", "expected a JSON object"),
        ("", "expected JSON"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_config_that_cannot_be_read_gets_one_line(run: Run, content: str, expected: str) -> None:
    (run.path / "config.json").write_text(content)
    with pytest.raises(StoreError, match=expected) as caught:
        run.config()
    assert "\n" not in str(caught.value) and str(run.path) in str(caught.value)


def test_leftovers_of_a_killed_writer_are_swept(run: Run) -> None:
    litter = run.path / ".last.safetensors.123.tmp"
    litter.write_bytes(b"half")
    run.begin(RunConfig(), ENV)
    assert not litter.exists()


def test_two_holders_are_one_too_many(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faudit.store.run.LOCK_PATIENCE", 0.1)
    with run.locked(), pytest.raises(StoreError, match="being trained by another process"), Run(run.path).locked():
        pass
    with run.locked():
        pass


def test_a_store_where_none_can_be_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoreError, match="not a file"), Run(tmp_path / "file" / "run").locked():
        pass
    with pytest.raises(StoreError, match="no run store at"):
        runs_in(tmp_path / "absent")


def test_without_permission_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)  # injected: tests may run as root, whom permission bits do not bind
    with (
        pytest.raises(StoreError, match=r"Permission denied. Give yourself permission"),
        Run(tmp_path / "run").locked(),
    ):
        pass


def test_only_directories_with_a_config_or_rows_are_runs(run: Run) -> None:
    (run.path.parent / "notes").mkdir()
    (run.path.parent / "file.txt").write_text("x")
    lost = Run(run.path.parent / "without a config")
    lost.path.mkdir()
    lost.append({"epoch": 0})
    assert runs_in(run.path.parent) == sorted([run, lost], key=lambda one: one.path)


def test_the_config_is_strict_json_with_its_format(run: Run) -> None:
    document = json.loads((run.path / "config.json").read_text())
    assert document["format"] == 1 and document["config"]["batch-size"] == 128


def test_the_environment_of_a_resume_is_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    first = {"faudit": "0", "commit": "a", "torch": "1", "cpu": "x", "data_sha256": "d"}
    with run.locked():
        run.begin(RunConfig(), first)
        assert run.begin(RunConfig(), first) == []
        assert run.begin(RunConfig(), {**first, "commit": "b"}) == ["commit was a, is now b: results may differ"]
        assert run.begin(RunConfig(), {**first, "commit": "b"}) == []
    assert run.environment()["commit"] == "a" and run.environment()["resumed"][0]["commit"] == "b"
