"""Runs on a real SLURM of one node equal local runs, whatever happens to their jobs. Each refusal is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.store.files import read_json
from faudit.store.run import Run
from faudit.sweep.study import read
from tests.support.runs import identical, until
from tests.support.slurm import Slurm, started
from tests.support.studies import TWO_RULES, sweep

pytestmark = pytest.mark.slow

STUDY = """
data = "digits"
width = 8
depth = 2
batch-size = 256
[grid]
epochs = [150]
seed = [1, 2]
[[include]]
epochs = 2
[include.grid]
rule = ["bp", "dfa"]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
"""
LONG = 'data = "digits"\nwidth = 8\ndepth = 2\n[grid]\nepochs = [100000]\nseed = [1, 2]\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    pytest.importorskip("submitit")
    with started(tmp_path_factory.mktemp("slurm") / "it") as one:
        yield one


@pytest.fixture
def slurm(cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The commands of this process ask the test's SLURM, too."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.clear()


def driver(study: Path, store: Path, *flags: str, said: Path) -> subprocess.Popen[str]:
    words = ["sweep", str(study), "--runs", str(store), "--engine", "slurm", *flags]
    with said.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "faudit", *words], stdout=subprocess.PIPE, stderr=file, text=True
        )


def waits_for(process: int, number: int) -> bool:
    """Whether a signal has come to a stopped process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in pending)


def test_24_runs_end_once_with_a_killed_job_a_timed_out_job_and_a_killed_driver(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    configs, store = read(tmp_path / "study.toml"), tmp_path / "runs"
    runs = [Run(store / config.run_id) for config in configs]
    words = (tmp_path / "study.toml", store, "--runs-per-job", "4")
    first = driver(*words, said=tmp_path / "first")
    try:
        assert until(lambda: all(run.checkpoint.exists() for run in runs[:2]), 120), (tmp_path / "first").read_text()
        array = next(iter(slurm.jobs())).partition("_")[0]
        late = slurm.process(f"{array}_1")
        assert late is not None
        os.kill(late, signal.SIGSTOP)  # so that its time is up before its runs are done, however fast this machine is
        slurm("scontrol", "update", f"job={array}_1", "TimeLimit=1")
        slurm("scancel", "--signal=KILL", f"{array}_0")
        assert until(lambda: "retrying from its last checkpoint" in (tmp_path / "first").read_text(), 60)
        first.kill()
        first.communicate()
        done = {run.name: (run.path / "done.json").stat() for run in runs if run.status == "done"}
        assert until(lambda: waits_for(late, signal.SIGUSR2), 90), "SLURM did not tell the job that its time is up"
        slurm("scontrol", "update", f"job={array}_1", "TimeLimit=60")
        os.kill(late, signal.SIGCONT)
        second = driver(*words, said=tmp_path / "second")
        out, _ = second.communicate(timeout=240)
    finally:
        first.kill()
    said = (tmp_path / "second").read_text()
    assert second.returncode == 0 and out.startswith("24 done, 0 failed, 0 left out"), said
    log = (store / "slurm" / f"{array}_1_0_log.out").read_text() + (
        store / "slurm" / f"{array}_1_0_log.err"
    ).read_text()
    assert "this job is timed-out" in log and log.count("Starting with JobEnvironment") == 2, log
    for name, before in done.items():
        assert os.path.samestat(before, (store / name / "done.json").stat()), f"{name} was done twice"
    batches = [read_json(path)["runs"] for path in (store / "slurm").glob("*.json")]
    submitted = [name for batch in batches for job in batch for name in job]
    again = {config.run_id for config in configs[::6]}  # the runs of the killed job
    assert sorted(submitted) == sorted(
        [config.run_id for config in configs] + [n for n in again if submitted.count(n) > 1]
    )
    assert configs[0].run_id in {name for name in submitted if submitted.count(name) == 2}
    here = tmp_path / "here"
    assert main(["sweep", str(tmp_path / "study.toml"), "--runs", str(here), "--jobs", "2"]) == 0
    for run in runs:
        identical(run, Run(here / run.name))
        assert "resumed" not in run.environment()


def test_an_interrupt_cancels_the_jobs(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(LONG)
    runs = [Run(tmp_path / "runs" / config.run_id) for config in read(tmp_path / "study.toml")]
    one = driver(tmp_path / "study.toml", tmp_path / "runs", "--jobs", "1", said=tmp_path / "said")
    try:
        assert until(lambda: runs[0].checkpoint.exists(), 120), (tmp_path / "said").read_text()
        assert sorted(slurm.jobs().values()) == ["PENDING", "RUNNING"]  # --jobs 1, though two would fit
        one.send_signal(signal.SIGINT)
        one.communicate(timeout=60)
    finally:
        one.kill()
    assert one.returncode == 130 and "Traceback" not in (tmp_path / "said").read_text()
    assert until(lambda: not slurm.jobs(), 15) and [run.status for run in runs] == ["stopped", "new"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--partition", "nowhere"), "SLURM rejects the job: invalid partition specified: nowhere. Check --partition"),
        (("--memory", "900G"), "SLURM rejects the job: Requested node configuration is not available."),
        (("--memory", "much"), "SLURM rejects the job: "),
        (("--sbatch", "no-such=1"), "SLURM rejects the job: unrecognized option '--no-such=1'."),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_job_that_slurm_rejects_is_one_line(
    slurm: Slurm,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    dry: tuple[str, ...],
    message: str,
) -> None:
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", *flags, *dry)
    assert code == 2 and err.startswith(f"faudit: {message}") and err.count("\n") == 1 and not out, err
    assert not (tmp_path / "runs").exists()


def test_a_full_queue_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    with started(tmp_path / "slurm", most=10) as slurm:
        for name, value in slurm.environment.items():
            monkeypatch.setenv(name, value)
        assert "Submitted" in slurm("sbatch", "--hold", "--array=0-8", "--wrap=true")
        assert sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", "--dry-run")[0] == 0
        code, _, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm")
    assert code == 2 and err.count("\n") == 1, err
    assert err.startswith(
        "faudit: SLURM's queue is full: Resource temporarily unavailable. Give the same command again"
    )


def test_a_store_that_the_nodes_do_not_share_is_one_line(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc/self/cwd is another folder for a job, which starts elsewhere."""
    (tmp_path / "study.toml").write_text(TWO_RULES)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ["sweep", str(tmp_path / "study.toml"), "--runs", "/proc/self/cwd/runs", "--engine", "slurm"]
    assert main([*words, "--sbatch", f"chdir={tmp_path}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("faudit: the nodes do not share the store: ") and err.count("\n") == 1, err
    assert until(lambda: not slurm.jobs(), 15)


def test_runs_that_slurm_never_takes_or_starts_are_left_out_with_the_reason(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", "--threads", "64")
    assert code == 2 and out.startswith("0 done, 0 failed, 2 left out")
    assert err.count("SLURM rejects its job: Requested node configuration is not available") == 4  # at once, at the end
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", "--time-limit", "2:00:00")
    assert code == 2 and out.startswith("0 done, 0 failed, 2 left out")
    assert "SLURM will never start its job: PartitionTimeLimit" in err
    assert until(lambda: not slurm.jobs(), 15)
