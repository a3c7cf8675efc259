"""Drive a study while killing its workers and its drivers again and again, then let it finish; prints what was hit.

    python -m tests.support.sweep_killer STORE KILLS SEED STUDY.toml

Kills come in bursts at random moments: some while a driver or its workers start, then, once a row was written, some in
the middle of epochs and writes. A driver that was killed, or that gave up on a run, is followed by the next.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from faudit.store.run import Run
from faudit.sweep.study import read
from tests.support.processes import workers_of

PATIENCE = 60.0  # seconds until a driver that writes no row is not waited for any longer


class Killer:
    """One driver at a time, and what was done to them."""

    def __init__(self, store: Path, seed: int, study: Path) -> None:
        self.chance, self.hits = random.Random(seed), Counter[str]()
        self._words = [sys.executable, "-m", "faudit", "sweep", str(study), "--runs", str(store), "--jobs", "2"]
        self._runs = [Run(store / config.run_id) for config in read(study)]
        self.ends: dict[str, list[int]] = {}  # which file says that a run is done: another one would be a second time
        self.driver = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def rows(self) -> int:
        return sum(len(run.rows()) for run in self._runs)

    def burst(self, *, most: int, gap: float) -> None:
        """Two kills or more, of workers and in the end perhaps of the driver."""
        for _ in range(self.chance.randint(2, most)):
            time.sleep(self.chance.uniform(0, gap))
            self.look()
            workers = workers_of(self.driver.pid)
            if workers and self.chance.random() < 0.8:
                self.hits["worker"] += kill(self.chance.choice(workers))
            elif self.driver.poll() is None:
                self.driver.kill()
                self.driver.wait()
                self.hits["driver"] += 1
                return
        self.look()

    def look(self) -> None:
        """No run that is done may be done again."""
        for run in self._runs:
            if run.status == "done":
                about = (run.path / "done.json").stat()
                mark = [about.st_ino, about.st_mtime_ns]
                if self.ends.setdefault(run.name, mark) != mark:
                    sys.exit(f"{run.name} was done twice")

    def episode(self) -> None:
        """A burst while they start, and one while they train."""
        before, until = self.rows(), time.monotonic() + PATIENCE
        self.burst(most=6, gap=0.6)
        while self.rows() <= before and time.monotonic() < until:
            if self.driver.poll() is not None:
                self.driver = self.start()
            time.sleep(0.02)
        moved = self.rows() > before
        time.sleep(self.chance.uniform(0, 0.3))
        hits = self.hits["worker"] + self.hits["driver"]
        self.burst(most=3, gap=0.1)
        if moved:
            self.hits["at_work"] += self.hits["worker"] + self.hits["driver"] - hits
        if self.driver.poll() is not None:
            self.driver = self.start()


def kill(pid: int) -> bool:
    """Whether it was there to be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def main(store: Path, kills: int, seed: int, study: Path) -> None:
    killer = Killer(store, seed, study)
    while killer.hits["worker"] + killer.hits["driver"] < kills:
        killer.episode()
    killer.driver.kill()
    killer.driver.wait()
    code = killer.start().wait()
    killer.look()
    print(json.dumps({**killer.hits, "code": code}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
