"""How a driver handles an engine's answers: which runs it retries, what it writes, what it says."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store.run import Run
from faudit.sweep.drive import Outcome, drive
from faudit.sweep.engine import Answer, Start, attempt
from faudit.train import fit, stream
from tests.support.runs import TINY


class Scripted:
    """An engine that calls a function with each run and answers with its result."""

    def __init__(self, act: Callable[[RunConfig], Answer]) -> None:
        self._act, self._given, self.count = act, list[RunConfig](), 0

    @property
    def start(self) -> Start:
        return Start(lambda todo: self)

    @property
    def running(self) -> list[RunConfig]:
        return self._given

    @property
    def free(self) -> bool:
        return not self._given

    def give(self, config: RunConfig) -> None:
        self._given.append(config)
        self.count += 1

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        given, self._given = self._given, []
        return [(config, self._act(config)) for config in given]

    def close(self) -> None: ...


def begin(config: RunConfig, store: Path) -> Run:
    """A run with a row and no checkpoint."""
    run = Run(store / config.run_id)
    rows = stream(config, run)
    next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    return run


def test_a_run_that_raised_has_failed_and_is_tried_again_only_on_request(tmp_path: Path) -> None:
    def raises(config: RunConfig) -> Answer:
        begin(config, tmp_path)
        return Answer("raised", "met a bug: ZeroDivisionError()")

    engine, run = Scripted(raises), Run(tmp_path / TINY.run_id)
    failed = Outcome(done=[], failed={TINY.run_id: "met a bug: ZeroDivisionError()"}, left={})
    assert drive([TINY], tmp_path, start=engine.start) == failed and run.status == "failed"
    told = {"reason": "met a bug: ZeroDivisionError()", "epoch": 0, "entry": None, "tap": None}
    assert run.outcome() == {**told, **run.ties()}
    assert drive([TINY], tmp_path, start=engine.start) == failed and engine.count == 1
    assert drive([TINY], tmp_path, start=engine.start, retry_failed=True) == failed and engine.count == 2
    works = Scripted(lambda config: attempt(config.to_json(), tmp_path, data_dir=None))
    assert drive([TINY], tmp_path, start=works.start, retry_failed=True).done == [TINY.run_id]


def test_a_run_that_raised_before_it_began_is_left(tmp_path: Path) -> None:
    engine = Scripted(lambda _: Answer("raised", "met a bug"))
    assert drive([TINY], tmp_path, start=engine.start).left == {TINY.run_id: "met a bug"}
    assert Run(tmp_path / TINY.run_id).status == "new"


def test_workers_that_die_count_by_checkpoints_not_by_rows(tmp_path: Path) -> None:
    """A run that logs every hundred epochs still makes progress; three deaths without a new checkpoint end it."""
    deaths = 0

    def dies(config: RunConfig) -> Answer:
        nonlocal deaths
        deaths += 1
        run = Run(tmp_path / config.run_id)
        run.path.mkdir(exist_ok=True)
        if deaths <= 5:
            run.checkpoint.touch()
            os.utime(run.checkpoint, ns=(deaths, deaths))
        return Answer("died", "its worker was lost")

    (text,) = drive([TINY], tmp_path, start=Scripted(dies).start).left.values()
    assert deaths == 7 and text.startswith("its worker was lost. 3 attempts made no progress")


def test_waiting_for_another_process_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, tries = begin(TINY, tmp_path), 0

    def held(config: RunConfig) -> Answer:
        nonlocal tries
        tries += 1
        if tries == 3:
            fit(config, tmp_path)
            return Answer("ended", "by another process")
        return Answer("held")

    assert drive([TINY], tmp_path, start=Scripted(held).start).done == [run.name]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "waiting for 1 run that another process holds" and len(said) == 2
    assert said[1].endswith("by another process")


def test_a_disk_without_locks_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", missing)
    engine = Scripted(lambda _: Answer("ended"))
    with pytest.raises(
        StoreError, match=r"Function not implemented\. Choose a --runs directory on a disk that has file"
    ):
        drive([TINY], tmp_path, start=engine.start)
    assert engine.count == 0
