"""The command line, as a shell calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def faudit(*words: str, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "faudit", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)
