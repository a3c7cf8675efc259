"""A Ray cluster on this machine, for as long as a test needs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import ROOT


@contextmanager
def two_nodes(cwd: Path, *path: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of ``two_nodes.py``, started in a folder of its own, and the cluster's address."""
    cwd.mkdir()
    words = [sys.executable, str(ROOT / "tests" / "support" / "two_nodes.py"), *path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    cluster = subprocess.Popen(words, text=True, cwd=cwd, **pipes)  # type: ignore[call-overload]
    try:
        yield cluster, cluster.stdout.readline().strip()
    finally:
        cluster.communicate(timeout=60)
