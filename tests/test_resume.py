"""Killed anywhere and resumed, a run ends as if nothing had happened: same rows, timings apart, and same weights."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store.checkpoint import weights
from faudit.store.run import Run
from faudit.train import fit, stream
from tests.support.commands import faudit
from tests.support.paths import ROOT
from tests.support.runs import QUICK, identical, until

CASES = {
    "dfa": RunConfig(rule="dfa", epochs=40, width=24, depth=3, batch_size=64, penalty=0.01),
    "fa": RunConfig(rule="fa", epochs=40, width=24, depth=3, batch_size=64, optimizer="sgd", momentum=0.9, log_every=3),
    "bp": RunConfig(rule="bp", epochs=40, width=24, depth=3, batch_size=64, random_targets=True, dtype="float64"),
    "mlp": RunConfig(net="mlp", rule="dfa", epochs=40, sizes=(24, 20), dropout=0.2, batch_norm=True, batch_size=64),
    "dkp": RunConfig(rule="dkp", epochs=40, width=24, depth=3, batch_size=64),  # feedback that an optimizer trains
    "kolen-pollack": RunConfig(rule="kolen-pollack", epochs=40, width=24, depth=3, batch_size=64),
    "weight-mirror": RunConfig(  # feedback that changes after an update, with noise
        rule="weight-mirror", epochs=40, width=24, depth=3, batch_size=64, mirror_start=5, mirror_response="sigmoid"
    ),
}
KILLS = 9  # of each


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_sigkill_at_random_moments_changes_nothing(tmp_path: Path, case: str) -> None:
    config = CASES[case]
    words = [str(tmp_path / "killed"), str(KILLS), "5", json.dumps(config.to_json())]
    command = [sys.executable, "-m", "tests.support.killer", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"] == KILLS, "the run ended before it was killed often enough"
    identical(Run(tmp_path / "killed" / config.run_id), fit(config, tmp_path / "calm"))


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_stopping_after_any_row_changes_nothing(tmp_path: Path, stop_after: int) -> None:
    """A generator closed after the row and before the checkpoint: the exact gap between the two writes."""
    run = Run(tmp_path / "a" / QUICK.run_id)
    rows = stream(QUICK, run)
    for _ in range(stop_after):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    assert run.status == "stopped" and len(run.rows()) == stop_after
    identical(fit(QUICK, tmp_path / "a"), fit(QUICK, tmp_path / "b"))


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(net="mlp", rule="fa", epochs=3, sizes=(9,), dropout=0.3, batch_norm=True),
        RunConfig(net="resnet", rule="bp", epochs=2, width=2, batch_size=512),
    ],
    ids=lambda config: config.net,
)
def test_dropout_and_running_statistics_go_on_where_they_stopped(tmp_path: Path, config: RunConfig) -> None:
    run = Run(tmp_path / "a" / config.run_id)
    rows = stream(config, run)
    for _ in range(3):  # epochs 0, 1 and 2: the checkpoint is at epoch 1
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    assert any(bool(value.any()) for name, value in weights(run.checkpoint).items() if name.endswith("running_mean"))
    identical(fit(config, tmp_path / "a"), fit(config, tmp_path / "b"))


@pytest.mark.parametrize("fails_at", [1, 3, 6, 9, 12])
def test_a_full_disk_at_any_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    calls = 0
    real = os.fsync

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"No space left on device. Free some space"):
            fit(QUICK, tmp_path / "a")
    identical(fit(QUICK, tmp_path / "a"), fit(QUICK, tmp_path / "b"))


def test_a_torn_row_is_written_again(tmp_path: Path) -> None:
    run = Run(tmp_path / "a" / QUICK.run_id)
    rows = stream(QUICK, run)
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    run.rows_file.write_bytes(run.rows_file.read_bytes()[:-20])
    identical(fit(QUICK, tmp_path / "a"), fit(QUICK, tmp_path / "b"))


def test_a_checkpoint_cut_short_stops_with_a_line_and_the_advice_works(tmp_path: Path) -> None:
    run = Run(tmp_path / "a" / QUICK.run_id)
    rows = stream(QUICK, run)
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:-5])
    before = run.rows_file.read_bytes()
    with pytest.raises(StoreError, match="--again"):
        fit(QUICK, tmp_path / "a")
    assert run.rows_file.read_bytes() == before
    run.checkpoint.unlink()
    identical(fit(QUICK, tmp_path / "a"), fit(QUICK, tmp_path / "b"))


@pytest.mark.slow
def test_a_second_process_on_one_run_is_told_so(tmp_path: Path) -> None:
    flags = ["train", "--epochs", "2", "--width", "16", "--runs", str(tmp_path)]
    run = Run(tmp_path / RunConfig(epochs=2, width=16).run_id)
    with run.locked():
        second = faudit(*flags)
    assert second.returncode == 2 and second.stdout == ""
    assert second.stderr.count("\n") == 1 and "being trained by another process" in second.stderr
    assert faudit(*flags).returncode == 0 and run.status == "done"


@pytest.mark.slow
def test_two_processes_at_once_train_a_run_once(tmp_path: Path) -> None:
    """Whoever comes second is refused, or finds the run finished; the rows are those of one run."""
    flags = ["train", "--rule", "dfa", "--epochs", "60", "--width", "64", "--batch-size", "64", "--runs", str(tmp_path)]
    words = [sys.executable, "-m", "faudit", *flags]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=180) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 2]), said
    run = Run(tmp_path / RunConfig(rule="dfa", epochs=60, width=64, batch_size=64).run_id)
    assert [row["epoch"] for row in run.rows()] == list(range(61))
    assert sum("epoch 1/60" in err for _, err in said) == 1, "trained twice"


def test_interrupting_says_how_to_go_on(tmp_path: Path) -> None:
    flags = ["train", "--epochs", "500", "--width", "64", "--runs", str(tmp_path)]
    child: Any = subprocess.Popen([sys.executable, "-m", "faudit", *flags], stderr=subprocess.PIPE, text=True)
    run = Run(tmp_path / RunConfig(epochs=500, width=64).run_id)
    assert until(run.rows_file.exists)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130 and "The same command goes on" in said and "Traceback" not in said
    assert run.status == "stopped"
