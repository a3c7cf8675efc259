"""The command `faudit sweep`: the runs it trains, the input it refuses, and its dry run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median
from unittest.mock import Mock

import pytest

from faudit.cli import sweep as command
from faudit.cli import tables
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.registry import Registry
from faudit.store.run import Run
from faudit.sweep import estimate
from faudit.sweep.engine import Flags, Start
from faudit.train import fit
from tests.support.fabricate import write
from tests.support.runs import TINY
from tests.support.studies import TINY_STUDY, TWO_RULES, sweep

DIVERGES = TINY_STUDY + 'optimizer = "sgd"\n[grid]\nlr = [1e30]\n'


@pytest.mark.usefixtures("forked_workers")
def test_a_study_is_made_once_and_seen_from_another_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sweep(capsys, tmp_path, TWO_RULES, "--jobs", "1")
    assert code == 0 and out == f"2 done, 0 failed, 0 left out: {tmp_path / 'runs'}\n"
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--jobs", "1")
    assert (code, err) == (0, "") and out.startswith("2 done")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == times
    assert main(["show", "--runs", str(tmp_path / "runs"), "--where", "rule=dfa", "--json"]) == 0
    assert [entry["config"]["rule"] for entry in json.loads(capsys.readouterr().out)] == ["dfa"]


def test_a_dry_run_says_what_is_there_and_how_long_the_rest_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'epochs = 40\n[grid]\nrule = ["bp", "dfa", "fa"]\nseed = [1, 2]\n'
    code, out, _ = sweep(capsys, tmp_path, text, "--dry-run")
    assert code == 0 and "6 runs: 0 done, 0 failed, 6 to make" in out and "6 of them have no measured run" in out
    assert not (tmp_path / "runs").exists()
    write(RunConfig(epochs=40, rule="bp", seed=1), tmp_path / "runs")  # at 1.1 s a row, 41 rows
    stopped = write(RunConfig(epochs=40, rule="dfa", seed=2), tmp_path / "runs", until=20)
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "config.json").write_text("{")
    before = sorted((tmp_path / "runs").rglob("*.json*"))
    code, out, err = sweep(capsys, tmp_path, text, "--dry-run", "--jobs", "2")
    lines = {line.split()[0]: line.split() for line in out.splitlines() if "-" in line}
    assert code == 0 and "6 runs: 1 done, 0 failed, 5 to make" in out and "odd" in err
    assert lines[stopped.name][1:3] == ["stopped", "20/40"] and lines[stopped.name][3] == "23"
    assert lines[RunConfig(epochs=40, rule="fa", seed=2).run_id][1:] == ["new", "0/40", "46", "s"]  # of its shape
    assert "about 103 s with 2 at once" in out.replace("2 min", "103 s")
    assert sorted((tmp_path / "runs").rglob("*.json*")) == before


def pretend(runs: Path, *, data_dir: Path | None, jobs: int | None, flags: Flags) -> Start:
    """The starter of an engine that only this file has."""
    if flags.address:
        raise ConfigError(f"there is nothing at {flags.address}")
    return Start(lambda todo: pytest.fail("a dry run starts nothing"), elsewhere=True)


def test_one_more_engine_is_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its starter refuses flags, also in a dry run, and says whether the data may be elsewhere."""
    engines = {"local": "faudit.sweep.local:starter", "pretend": f"{__name__}:pretend"}
    monkeypatch.setattr(command, "ENGINES", Registry("engine", engines))
    text = 'data = "cifar10"\n[grid]\nseed = [1]\n'
    assert sweep(capsys, tmp_path, text, "--dry-run", "--engine", "pretend")[0] == 0
    code, _, err = sweep(capsys, tmp_path, text, "--dry-run")
    assert code == 2 and "--data-dir" in err
    code, out, err = sweep(capsys, tmp_path, text, "--dry-run", "--engine", "pretend", "--address", "x")
    assert (code, out, err) == (2, "", "faudit: there is nothing at x\n")


def test_a_dry_run_of_many_is_plain_text_and_each_kind_is_measured_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        write(RunConfig(epochs=2, seed=seed), tmp_path / "runs")
    monkeypatch.setattr(tables, "Table", None)
    counted = Mock(side_effect=median)
    monkeypatch.setattr(estimate, "median", counted)
    code, out, _ = sweep(capsys, tmp_path, f"epochs = 2\n[grid]\nseed = {list(range(600))}\n", "--dry-run")
    assert code == 0 and out.count("  new  ") == 597 and counted.call_count == 2  # with its rule, and with any
    assert "600 runs: 3 done, 0 failed, 597 to make" in out


def test_paths_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "x[/b]"
    damaged = store / TINY.run_id / "config.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    damaged.with_name("done.json").write_text("{}")
    code, out, _ = sweep(capsys, tmp_path, TWO_RULES, "--dry-run", "--runs", str(store))
    assert code == 0 and "x[/b]" in out and "1 that cannot be used" in out


@pytest.mark.usefixtures("forked_workers")
def test_a_failed_run_is_named_and_tried_again_on_request_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fit(TINY.with_(optimizer="sgd", lr=1e30), tmp_path / "runs").path
    rows = Run(path).rows_file.stat()
    code, out, err = sweep(capsys, tmp_path, DIVERGES, "--jobs", "1")
    assert code == 1 and "0 done, 1 failed" in out and f"{path.name}: diverged" in err and "--retry-failed" in err
    assert Run(path).rows_file.stat().st_mtime_ns == rows.st_mtime_ns
    assert sweep(capsys, tmp_path, DIVERGES, "--jobs", "1", "--retry-failed")[0] == 1
    assert Run(path).rows_file.stat().st_mtime_ns > rows.st_mtime_ns and Run(path).status == "failed"
    assert (path / "failed-before.json").exists()


def test_a_study_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, flags, expected in [
        (TWO_RULES + "sead = [1]\n", (), "did you mean 'seed'?"),
        (TWO_RULES, ("--max-runs", "1"), "2 runs"),
        (TWO_RULES, ("--jobs", "0"), "jobs: expected a whole number ≥ 1, got 0"),
        (TWO_RULES, ("--threads", "0"), "threads: expected a whole number from 1"),
        (TWO_RULES, ("--address", "x:1"), "--address: expected with --engine ray"),
        (TWO_RULES + "clip = [2]\n", (), "rule bp does not read clip"),
        (TWO_RULES, ("--runs", "/proc/runs"), "cannot use /proc/runs"),
        (TWO_RULES, ("--runs", str(tmp_path / "study.toml")), "not a file"),
        (TWO_RULES, ("--dry-run", "--jobs", "0"), "jobs: expected a whole number ≥ 1, got 0"),
        (TWO_RULES, ("--dry-run", "--address", "x:1"), "--address: expected with --engine ray"),
        (TWO_RULES + "clip = [2]\n", ("--dry-run",), "rule bp does not read clip"),
    ]:
        code, out, err = sweep(capsys, tmp_path, text, *flags)
        assert code == 2 and out == "" and expected in err and err.count("\n") == 1, err
        assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_store_that_may_not_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir(mode=0o555)
    code, _, err = sweep(capsys, tmp_path, TWO_RULES)
    assert code == 2 and "Permission denied" in err and err.count("\n") == 1


@pytest.mark.usefixtures("forked_workers")
def test_damaged_runs_are_named_and_left_and_the_others_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "runs" / TINY.run_id / "config.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--jobs", "1")
    assert code == 2 and "1 done, 0 failed, 1 left out" in out
    assert f"faudit: {TINY.run_id}: {damaged} is damaged" in err and damaged.read_text() == "{"
