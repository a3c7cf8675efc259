"""A study whose workers and drivers are killed many times ends with the same results as an undisturbed one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faudit.store.run import Run
from faudit.sweep.study import read
from faudit.train import fit
from tests.support.paths import ROOT
from tests.support.processes import is_alive, workers_of
from tests.support.runs import identical, until

KILLS = 32
STUDY = 'width = 16\ndepth = 2\nepochs = 60\nbatch-size = 64\n[grid]\nrule = ["bp", "dfa"]\nseed = [1, 2]\n'


@pytest.mark.slow
def test_sigkills_on_workers_and_drivers_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    words = [str(tmp_path / "killed"), str(KILLS), "3", str(tmp_path / "study.toml")]
    command = [sys.executable, "-m", "tests.support.sweep_killer", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["worker"] + told["driver"] >= KILLS and min(told["worker"], told["driver"]) >= 4, told
    assert told["code"] == 0 and told["at_work"] >= 5, told
    for config in read(tmp_path / "study.toml"):
        run = Run(tmp_path / "killed" / config.run_id)
        identical(run, fit(config, tmp_path / "calm"))
        assert [row["epoch"] for row in run.rows()] == list(range(config.epochs + 1))


@pytest.mark.slow
def test_two_commands_at_once_share_a_study_and_none_trains_twice(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("60", "20"))
    words = [sys.executable, "-m", "faudit", "sweep", str(tmp_path / "study.toml"), "--runs", str(tmp_path / "runs")]
    both = [subprocess.Popen([*words, "--jobs", "1"], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [sweep.communicate(timeout=240)[1] for sweep in both]
    assert [sweep.returncode for sweep in both] == [0, 0], said
    made = [[line.split()[1] for line in text.splitlines() if line.endswith(" s")] for text in said]
    configs = read(tmp_path / "study.toml")
    assert sorted(made[0] + made[1]) == sorted(config.run_id for config in configs), "trained twice, or by nobody"
    for config in configs:
        identical(Run(tmp_path / "runs" / config.run_id), fit(config, tmp_path / "calm"))


@pytest.mark.slow
def test_an_interrupt_stops_a_study_within_seconds_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("60", "100000"))
    words = [sys.executable, "-m", "faudit", "sweep", str(tmp_path / "study.toml"), "--runs", str(tmp_path / "runs")]
    sweep = subprocess.Popen([*words, "--jobs", "2", "--stack", "off"], stderr=subprocess.PIPE, text=True)
    try:
        runs = [Run(tmp_path / "runs" / config.run_id) for config in read(tmp_path / "study.toml")]
        assert until(lambda: sum(run.status == "running" and run.checkpoint.exists() for run in runs) == 2)
        workers, started = workers_of(sweep.pid), time.monotonic()
        sweep.send_signal(2)
        _, said = sweep.communicate(timeout=60)
        assert sweep.returncode == 130 and time.monotonic() - started < 10
        assert "interrupted. The same command goes on from the last checkpoint." in said and "Traceback" not in said
        assert len(workers) == 2 and not any(map(is_alive, workers))
        assert sorted(run.status for run in runs) == ["new"] * 2 + ["stopped"] * 2
    finally:
        sweep.kill()  # its workers go with it
