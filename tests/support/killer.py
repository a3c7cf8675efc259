"""Train one configuration while killing it again and again, then let it finish; prints how many kills hit it at work.

    python -m tests.support.killer STORE KILLS SEED CONFIG.json

A process of its own, so that each attempt is a fork with torch already imported: twenty kills take seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from faudit.config import RunConfig
from faudit.store.run import Run
from faudit.train import fit


def attempt(config: RunConfig, store: Path, *, patience: float | None) -> bool:
    """Train in a child; kill it after ``patience`` seconds. Whether the kill found it alive."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fit(config, store)
            code = 0
        finally:
            os._exit(code)
    if patience is not None:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if patience is None and status != 0:
        sys.exit(f"the undisturbed attempt failed with {status}")
    return os.WIFSIGNALED(status)


def main(store: Path, kills: int, seed: int, config: RunConfig) -> None:
    chance = random.Random(seed)
    hits = epochs = 0
    longest = 0.05
    while hits < kills:
        if attempt(config, store, patience=chance.uniform(0, longest)):
            hits += 1
        if Run(store / config.run_id).status == "done":
            break
        now = len(Run(store / config.run_id).rows())
        longest = (
            min(longest * 1.5, 1.0) if now == epochs else max(longest / 1.2, 0.05)
        )  # some progress, never too much
        epochs = now
    attempt(config, store, patience=None)
    print(json.dumps({"hits": hits}))


if __name__ == "__main__":
    settings = json.loads(sys.argv[4])
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), RunConfig.parse(settings, where="test"))
