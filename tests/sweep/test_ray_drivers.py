"""If a Ray driver is killed, started twice or out of disk, every run is still trained once, with the same rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faudit.store.run import Run
from faudit.sweep.study import read
from tests.support.clusters import two_nodes
from tests.support.runs import same_as_alone, until

STUDY = (
    'data = "digits"\nwidth = 8\ndepth = 2\nbatch-size = 64\nepochs = 40\n[grid]\nrule = ["bp", "dfa"]\nseed = [1, 2]\n'
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    pytest.importorskip("ray")
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def driver(study: Path, store: Path, address: str) -> subprocess.Popen[str]:
    words = ["sweep", str(study), "--runs", str(store), "--engine", "ray", "--address", address]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "faudit", *words], text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def rows_in(store: Path, study: Path) -> int:
    return sum(len(Run(store / config.run_id).row_lines()) for config in read(study))


def killed_at_work(study: Path, store: Path, address: str) -> None:
    """Start a driver, and kill it after it has written a few more rows."""
    before = rows_in(store, study)
    one = driver(study, store, address)
    assert until(lambda: rows_in(store, study) > before + 5, 120), one.communicate(timeout=60)
    one.kill()
    one.communicate(timeout=60)
    assert all(Run(store / config.run_id).status != "running" for config in read(study)), "its locks are gone"


@pytest.mark.slow
def test_a_driver_killed_again_and_again_changes_nothing(tmp_path: Path, study: Path) -> None:
    store = tmp_path / "runs"
    with two_nodes(tmp_path / "nodes") as (_, address):
        for _ in range(3):
            killed_at_work(study, store, address)
        last = driver(study, store, address)
        out, said = last.communicate(timeout=240)
    assert last.returncode == 0 and out.startswith("4 done, 0 failed, 0 left out"), said
    same_as_alone(read(study), store, tmp_path / "alone")


@pytest.mark.slow
def test_two_drivers_on_one_cluster_share_a_study_and_no_run_is_made_twice(tmp_path: Path, study: Path) -> None:
    store = tmp_path / "runs"
    with two_nodes(tmp_path / "nodes") as (_, address):
        both = [driver(study, store, address) for _ in range(2)]
        said = [one.communicate(timeout=300) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    made = [line.split()[1] for _, text in said for line in text.splitlines() if line.endswith(" s")]
    assert sorted(made) == sorted(config.run_id for config in read(study)), said
    same_as_alone(read(study), store, tmp_path / "alone")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that has room for one checkpoint but not for two."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", str(disk)]
    mounted = subprocess.run(words, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk needs mount, which this user may not call")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_of_the_driver_leaves_runs_out_and_the_next_sweep_goes_on(
    tmp_path: Path, study: Path, small_disk: Path
) -> None:
    store = small_disk / "runs"
    with two_nodes(tmp_path / "nodes") as (_, address):
        first = driver(study, store, address)
        out, said = first.communicate(timeout=240)
        assert first.returncode == 2 and "No space left on device" in said and "Traceback" not in said, said
        assert " 0 left out" not in out
        subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
        second = driver(study, store, address)
        out, said = second.communicate(timeout=240)
    assert second.returncode == 0 and out.startswith("4 done, 0 failed, 0 left out"), said
    same_as_alone(read(study), store, tmp_path / "alone")
