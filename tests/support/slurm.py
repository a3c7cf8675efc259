"""A real SLURM of one node on this machine, for as long as a test needs it.

Its daemons listen on free ports of the loopback, keep all files in one folder and die with the process that started
them. Nothing of a SLURM that the machine may have is read or changed.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.runs import until

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "srun", "setpriv")
READY = 60.0  # seconds that the daemons have to start
CONF = """
ClusterName=faudit
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=1000,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=2
MaxJobCount={most}
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=9 State=UP
"""


def lacks() -> str:
    """Why SLURM cannot be started here; empty if it can be tried."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
    return f"SLURM is not installed: no {', '.join(missing)} (Debian: slurm-wlm, munge)" if missing else ""


class Slurm:
    """The commands of a running SLURM."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which SLURM's commands ask this one."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        return {**mine, "SLURM_CONF": str(self.conf), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def __call__(self, *words: str) -> str:
        """What a command says; empty if it fails."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False, timeout=READY, cwd=self.folder
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def jobs(self) -> dict[str, str]:
        """The jobs that are in the queue, with their states."""
        lines = self("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def process(self, job: str) -> int | None:
        """The Python that trains in a job of an array, on this node."""
        array, index = job.split("_")
        marks = {f"SLURM_ARRAY_JOB_ID={array}", f"SLURM_ARRAY_TASK_ID={index}", f"SLURM_CONF={self.conf}"}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_text().split("\0")
                there = set((place / "environ").read_text().split("\0"))
                if "submitit.core._submit" in words and "python" in Path(words[0]).name and marks <= there:
                    return int(place.name)
        return None

    def clear(self) -> None:
        """Cancel every job and wait until its processes have ended."""
        self("scancel", f"--user={getpass.getuser()}")
        until(lambda: not self.jobs(), READY)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def daemon(folder: Path, environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground that dies with this process."""
    with open(folder / f"{words[0]}.out", "wb") as out:
        one = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words], stdout=out, stderr=out, env=environment, cwd=folder
        )
    try:
        yield one
    finally:
        one.send_signal(signal.SIGTERM)
        try:
            one.wait(10)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


@contextmanager
def started(folder: Path, *, most: int = 1000) -> Iterator[Slurm]:
    """A SLURM in a folder, with room for so many jobs. Skips the test where it is not installed or does not start."""
    if reason := lacks():
        pytest.skip(reason)
    folder.mkdir(parents=True)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    slurm, host = Slurm(folder), socket.gethostname().partition(".")[0]
    places = {"folder": folder, "control": free_port(), "node": free_port()}
    slurm.conf.write_text(CONF.format(host=host, user=getpass.getuser(), most=most, **places))
    munge = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("pid-file", "log-file", "seed-file")]
    with ExitStack() as stack:
        run = [
            ("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", *munge),
            ("slurmctld", "-D", "-f", str(slurm.conf)),
            ("slurmd", "-D", "-f", str(slurm.conf)),
        ]
        for words in run:
            stack.enter_context(daemon(folder, slurm.environment, *words))
            if words[0] == "munged":
                until((folder / "munge.socket").exists, 10)
        if not until(lambda: "idle" in slurm("sinfo", "--noheader", "--partition=main", "--format=%t"), READY):
            log = (folder / "slurmctld.log").read_text().splitlines() if (folder / "slurmctld.log").exists() else []
            pytest.skip(f"SLURM does not start here: {(log or ['slurmctld wrote no log'])[-1]}")
        try:
            yield slurm
        finally:
            slurm.clear()
