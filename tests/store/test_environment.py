"""The environment of a run can be published, and says which commit made it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from faudit.store.environment import environment
from tests.support.paths import ROOT


def test_it_is_strict_json_without_host_or_path() -> None:
    text = json.dumps(environment(), allow_nan=False)
    assert str(Path.home()) not in text and os.uname().nodename not in text


def test_it_names_the_versions_and_the_processor() -> None:
    found = environment()
    assert all(found[name] for name in ("faudit", "torch", "numpy", "python", "system", "cpu", "cores"))


def test_it_names_the_commit_of_the_checkout() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    head = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert str(environment()["commit"]).removesuffix("+") == head
