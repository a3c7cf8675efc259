"""Runs on a real SLURM of one node equal local runs, whatever happens to their jobs. Each refusal is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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

PATIENCE = 300  # seconds for anything that a busy machine may do slowly
STUDY = """
data = "digits"
width = 8
depth = 2
batch-size = 256
[grid]
epochs = [40]
seed = [1, 2]
[[include]]
epochs = 2
[include.grid]
rule = ["bp", "dfa"]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
"""
LONG = 'data = "digits"\nwidth = 8\ndepth = 2\n[grid]\nepochs = [100000]\nseed = [1]\n'


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


@contextmanager
def driver(study: Path, store: Path, *flags: str, said: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep in a process of its own, which is dead at the end. What it says goes to a file."""
    words = [sys.executable, "-m", "faudit", "sweep", str(study), "--runs", str(store), "--engine", "slurm", *flags]
    with said.open("w") as file, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=file, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def test_24_runs_end_once_with_a_killed_job_a_timed_out_job_and_a_killed_driver(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    configs, store = read(tmp_path / "study.toml"), tmp_path / "runs"
    runs = [Run(store / config.run_id) for config in configs]
    words = (tmp_path / "study.toml", store, "--runs-per-job", "8", "--time-limit", "10")
    with driver(*words, said=tmp_path / "first"):
        assert until(lambda: len(slurm.jobs()) == 3, PATIENCE), (tmp_path / "first").read_text()
        array = next(iter(slurm.jobs())).partition("_")[0]
        assert until(lambda: slurm.process(f"{array}_0") and slurm.process(f"{array}_1"), PATIENCE), slurm("squeue")
        killed, late = slurm.process(f"{array}_0"), slurm.process(f"{array}_1")
        assert killed and late
        acts = {0: (killed, signal.SIGKILL), 1: (late, signal.SIGSTOP)}  # stopped: its time is up before it is done
        while acts:
            assert until(lambda: any(runs[place].checkpoint.exists() for place in acts), PATIENCE)
            for place in [place for place in acts if runs[place].checkpoint.exists()]:
                os.kill(*acts.pop(place))
        # SLURM looks at the limits every 30 seconds. So there is time to tell the job 30 seconds before its end.
        slurm("scontrol", "update", f"job={array}_1", "EndTime=now+55")
        assert until(lambda: "retrying from its last checkpoint" in (tmp_path / "first").read_text(), PATIENCE)
    log = store / "slurm" / f"{array}_1_0_log.out"
    assert until(lambda: "Requeued job" in log.read_text(), PATIENCE), "SLURM did not tell the job that its time is up"
    slurm("scontrol", "update", f"job={array}_1", "TimeLimit=10")
    done = {run.name: (run.path / "done.json").stat() for run in runs if run.status == "done"}
    with driver(*words, said=tmp_path / "second") as second:
        out, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 0 and out.startswith("24 done, 0 failed, 0 left out"), (tmp_path / "second").read_text()
    text = log.read_text()
    assert "this job is timed-out" in text and text.count("Starting with JobEnvironment") == 2, text
    for name, before in done.items():
        assert os.path.samestat(before, (store / name / "done.json").stat()), f"{name} was done twice"
    batches = [read_json(path)["runs"] for path in (store / "slurm").glob("*.json")]
    submitted = Counter(name for batch in batches for job in batch for name in job)
    again = {name for name, times in submitted.items() if times > 1}
    assert submitted.keys() == {run.name for run in runs} and submitted.total() == 24 + len(again)
    assert again and again <= {run.name for run in runs[::3]}, "only the runs of the killed job get a second one"
    here = tmp_path / "here"
    assert main(["sweep", str(tmp_path / "study.toml"), "--runs", str(here), "--jobs", "1"]) == 0
    for run in runs:
        identical(run, Run(here / run.name))
        assert "resumed" not in run.environment()


def test_a_preempted_job_goes_on_and_an_interrupt_cancels_it(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(LONG)
    run = Run(tmp_path / "runs" / read(tmp_path / "study.toml")[0].run_id)
    with driver(tmp_path / "study.toml", run.path.parent, said=tmp_path / "said") as one:
        assert until(run.checkpoint.exists, PATIENCE), (tmp_path / "said").read_text()
        log = run.path.parent / "slurm" / f"{next(iter(slurm.jobs()))}_0_log.out"
        slurm("sbatch", "--partition=urgent", "--cpus-per-task=2", "--wrap=sleep 1")
        assert until(lambda: "PREEMPTION" in log.with_suffix(".err").read_text(), PATIENCE)
        assert until(lambda: run.status == "stopped", PATIENCE)
        rows = len(run.rows())
        assert until(lambda: len(run.rows()) > rows + 2, PATIENCE), slurm("squeue")
        assert log.read_text().count("Starting with JobEnvironment") == 2
        one.send_signal(signal.SIGINT)
        one.communicate(timeout=PATIENCE)
    assert one.returncode == 130 and "Traceback" not in (tmp_path / "said").read_text()
    assert until(lambda: not slurm.jobs(), PATIENCE) and run.status == "stopped"


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
    assert until(lambda: not slurm.jobs(), PATIENCE)


def test_runs_that_slurm_never_takes_or_starts_are_left_out_with_the_reason(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", "--threads", "64")
    assert code == 2 and out.startswith("0 done, 0 failed, 2 left out")
    assert err.count("SLURM rejects its job: Requested node configuration is not available") == 4  # at once, at the end
    code, out, err = sweep(capsys, tmp_path, TWO_RULES, "--engine", "slurm", "--time-limit", "2:00:00", "--jobs", "1")
    assert code == 2 and out.startswith("0 done, 0 failed, 2 left out")
    assert "SLURM will never start its job: PartitionTimeLimit" in err
    script = next((tmp_path / "runs" / "slurm").glob("*_submission.sh")).read_text()
    assert "#SBATCH --array=0-1%1\n" in script and "#SBATCH --time=120\n" in script
    assert until(lambda: not slurm.jobs(), PATIENCE)
