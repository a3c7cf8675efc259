"""Runs that one worker trains together: each has the files of a run trained alone, whatever becomes of the others."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from faudit.config import RunConfig
from faudit.stack.stack import Stack
from faudit.store.run import Run
from faudit.sweep.drive import Outcome, drive
from faudit.sweep.engine import Answer, Flags, Start
from faudit.sweep.local import run_all, starter
from faudit.sweep.together import attempt_all
from faudit.train import fit, stream
from tests.support.processes import workers_of
from tests.support.runs import TINY, identical, until

SMALL = TINY.with_(width=16)
FOUR = [SMALL.with_(rule="dfa", seed=seed, lr=lr) for seed in (1, 2) for lr in (1e-3, 1e-2)]
DIVERGES = [SMALL.with_(lr=lr, optimizer="sgd") for lr in (1e-2, 1e30, 1e-3)]


def attempted(configs: list[RunConfig], store: Path) -> dict[int, Answer]:
    return dict(attempt_all([config.to_json() for config in configs], store, data_dir=None))


def stacks_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the stacks that are made from here on, those of rehearsals too."""
    made: list[int] = []
    before = Stack.__init__

    def init(self: Stack, experiments: list[object]) -> None:
        made.append(len(experiments))
        before(self, experiments)  # type: ignore[arg-type]

    monkeypatch.setattr(Stack, "__init__", init)
    return made


def test_each_run_has_the_files_of_a_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stacks_made(monkeypatch)
    assert attempted(FOUR, tmp_path / "together") == {place: Answer("ended") for place in range(4)}
    assert made == [4, 4], "a rehearsal and one stack for all epochs"
    for config in FOUR:
        run, calm = Run(tmp_path / "together" / config.run_id), fit(config, tmp_path / "alone")
        identical(run, calm)
        one, other = run.outcome(), calm.outcome()
        assert one and other
        apart = ("seconds", "peak_bytes")
        assert {k: v for k, v in one.items() if k not in apart} == {k: v for k, v in other.items() if k not in apart}
        assert run.environment() == calm.environment() and run.config() == config


def test_a_run_that_diverges_fails_alone(tmp_path: Path) -> None:
    answers = attempted(DIVERGES, tmp_path)
    assert [answers[place].word for place in range(3)] == ["ended"] * 3
    assert [Run(tmp_path / config.run_id).status for config in DIVERGES] == ["done", "failed", "done"]
    for config in DIVERGES[::2]:
        identical(Run(tmp_path / config.run_id), fit(config, tmp_path / "alone"))
    alone = fit(DIVERGES[1], tmp_path / "alone").outcome()
    assert alone and alone == Run(tmp_path / DIVERGES[1].run_id).outcome()


def test_ended_held_and_stopped_runs_do_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, held, stopped, fresh = FOUR
    fit(ended, tmp_path)
    rows = stream(stopped, Run(tmp_path / stopped.run_id))
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    monkeypatch.setattr("faudit.store.run.LOCK_PATIENCE", 0.1)
    with Run(tmp_path / held.run_id).locked():
        answers = attempted(FOUR, tmp_path)
    assert answers[0] == Answer("ended", "by another process") and answers[1].word == "held"
    assert answers[2] == answers[3] == Answer("ended")
    for config in (stopped, fresh):
        identical(Run(tmp_path / config.run_id), fit(config, tmp_path / "alone"))


def test_runs_that_would_not_be_the_same_are_trained_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faudit.stack.stack.agrees", lambda experiments: False)
    monkeypatch.setattr(Stack, "epoch", lambda *_: pytest.fail("a stack was trained"))
    assert attempted(FOUR[:2], tmp_path) == {0: Answer("ended"), 1: Answer("ended")}
    identical(Run(tmp_path / FOUR[0].run_id), fit(FOUR[0], tmp_path / "alone"))


def test_an_error_of_the_stack_is_the_answer_of_all_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("faudit.stack.stack.agrees", lambda experiments: True)
    monkeypatch.setattr(Stack, "epoch", breaks)
    answers = attempted(FOUR[:2], tmp_path)
    assert [answers[place].text for place in (0, 1)] == ["met a bug: ZeroDivisionError()"] * 2
    assert [answers[place].word for place in (0, 1)] == ["raised"] * 2


def test_the_seconds_of_a_stack_are_shared_by_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, before = [0.0], Stack.epoch

    def takes_four_seconds(stack: Stack, epochs: list[int]) -> list[float]:
        now[0] += 4.0
        return before(stack, epochs)

    clock = SimpleNamespace(perf_counter=lambda: now[0])  # a true clock also counts what else the machine does
    monkeypatch.setattr("faudit.sweep.together.time", clock)
    monkeypatch.setattr("faudit.train.time", clock)
    attempted(FOUR[:1], tmp_path)  # one run alone: no stack, and the clock stands still
    assert Run(tmp_path / FOUR[0].run_id).rows()[1]["seconds"] == 0.0
    monkeypatch.setattr(Stack, "epoch", takes_four_seconds)
    monkeypatch.setattr("faudit.stack.stack.agrees", lambda experiments: True)  # its rehearsal is no epoch
    attempted(FOUR, tmp_path / "together")
    for config in FOUR:
        rows = Run(tmp_path / "together" / config.run_id).rows()
        assert [row["seconds"] for row in rows] == [0.0] + [1.0] * config.epochs


@pytest.mark.slow
def test_a_mixed_study_is_that_of_runs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apart = SMALL.with_(rule="dfa-layers")
    study = [*FOUR, apart, *DIVERGES]
    outcome = run_all(study, tmp_path, data_dir=None, jobs=1)
    assert list(outcome.failed) == [DIVERGES[1].run_id] and not outcome.left and len(outcome.done) == len(study) - 1
    for config in (*FOUR, apart, *DIVERGES[::2]):
        identical(Run(tmp_path / config.run_id), fit(config, tmp_path / "alone"))
    said = capsys.readouterr().err
    ended = [line for line in said.splitlines() if line.startswith("[")]  # a slow run also tells its epochs
    assert len(ended) == len(study) and "stack" not in said, "one line for each run, and none about stacks"


@pytest.mark.slow
def test_a_killed_worker_changes_no_run_of_its_stack(tmp_path: Path) -> None:
    long = [one.with_(epochs=40, log_every=5) for one in FOUR]

    def kill() -> None:
        if until(lambda: Run(tmp_path / long[0].run_id).checkpoint.exists()):
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = run_all(long, tmp_path, data_dir=None, jobs=1)
    killer.join()
    assert outcome == Outcome(done=[config.run_id for config in long], failed={}, left={})
    for config in long:
        identical(Run(tmp_path / config.run_id), fit(config, tmp_path / "alone"))


def test_with_off_every_worker_gets_one_run(tmp_path: Path) -> None:
    start = starter(tmp_path, data_dir=None, jobs=1, flags=Flags(stack="off"))
    assert start.groups(FOUR) == [[config] for config in FOUR]
    assert starter(tmp_path, data_dir=None, jobs=1).groups(FOUR) == [FOUR]


class Dying:
    """An engine whose worker dies as long as it has more than one run."""

    def __init__(self) -> None:
        self.given: list[list[RunConfig]] = []
        self.running: list[RunConfig] = []

    @property
    def free(self) -> bool:
        return not self.running

    def give(self, config: RunConfig) -> None:
        self.give_stack([config])

    def give_stack(self, configs: list[RunConfig]) -> None:
        self.given.append(list(configs))
        self.running = list(configs)

    def answers(self, *, timeout: float) -> list[tuple[RunConfig, Answer]]:
        runs, self.running = self.running, []
        return [(config, Answer("refused", "enough") if len(runs) == 1 else Answer("died", "lost")) for config in runs]

    def close(self) -> None: ...


def test_runs_whose_worker_died_twice_are_tried_one_by_one(tmp_path: Path) -> None:
    engine = Dying()
    outcome = drive(FOUR, tmp_path, start=Start(lambda todo: engine, groups=lambda runs: [list(runs)] if runs else []))
    assert list(outcome.left) == [config.run_id for config in FOUR]
    assert engine.given == [FOUR, FOUR, *([config] for config in FOUR)]
