"""Every example runs as it stands, in an empty directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(tmp_path: Path, example: Path) -> None:
    words = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_examples() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "01_train_two_rules",
        "02_own_rule",
        "03_audit_your_model",
        "04_figures",
        "05_own_probe",
        "06_own_check",
        "07_own_figure",
        "08_own_dataset",
        "09_watch_your_loop",
    ]
