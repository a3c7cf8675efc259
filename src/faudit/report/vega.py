"""Vega and Vega-Lite as one script for the page, taken from the package vl-convert-python.

Needs the extra ``report`` (``pip install 'faudit[report]'``). vl-convert bundles the script in some seconds, so faudit
keeps it in the user's cache folder, one file for each version of vl-convert. A file that is damaged or cannot be
written is ignored.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from faudit.errors import ConfigError, StoreError
from faudit.store.files import write_whole

CHECKSUM = 64  # characters of a SHA-256
BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(None).encode())"

MISSING = (
    "the report needs the package vl-convert-python: expected it, got none. "
    "Install it with `pip install 'faudit[report]'`."
)


def is_installed() -> bool:
    return importlib.util.find_spec("vl_convert") is not None


def script() -> str:
    """The script, which defines ``vegaEmbed``."""
    if not is_installed():
        raise ConfigError(MISSING)
    path = folder() / f"vega-{version('vl-convert-python')}.js"
    if kept := read(path):
        return kept
    made = bundled()
    with suppress(StoreError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{checksum(made)}\n{made}".encode())
    return made


def bundled() -> str:
    """The script as vl-convert makes it, in a process of its own: its engine ends the process if memory is short."""
    with tempfile.TemporaryDirectory() as empty:  # no file of the user's folder may hide a module
        made = subprocess.run([sys.executable, "-c", BUNDLE], capture_output=True, cwd=empty, check=False)
    if made.returncode != 0 or not made.stdout:
        raise ConfigError(
            f"vl-convert cannot make the script of the page: expected exit code 0, got {made.returncode}. "
            "Its engine needs some gigabytes of address space: raise `ulimit -v`, and try again."
        )
    return made.stdout.decode()


def folder() -> Path:
    """The cache folder of faudit for this user."""
    import pooch  # type: ignore[import-untyped] # pooch publishes no types

    return Path(pooch.os_cache("faudit"))


def read(path: Path) -> str:
    """The kept script; empty if there is none or it is damaged."""
    try:
        found, _, made = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return ""
    return made if len(found) == CHECKSUM and found == checksum(made) else ""


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
