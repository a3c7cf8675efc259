"""The environment of a run: versions, processor and commit. It holds no host name or path, so it can be published."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from faudit import __version__


@cache
def environment() -> dict[str, str | int | None]:
    """The machine and code versions that may affect numbers."""
    return {
        "faudit": __version__,
        "commit": commit(),
        "torch": installed("torch"),
        "numpy": installed("numpy"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu(),
        "cores": os.cpu_count(),
    }


def peak_bytes() -> int | None:
    """The most memory that this process has had so far, in bytes; None where the system does not tell.

    A worker that trains several runs, one after the other, counts the largest of them.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else 1024 * peak  # other systems count KiB


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the checkout, with ``+`` if source files differ from it; None outside a checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()


def cpu() -> str:
    """The processor's name from /proc/cpuinfo, or else from Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
