"""The public names, on purpose: adding or removing one is an edit here and a line in the changelog."""

from __future__ import annotations

import subprocess
import sys

import faudit
from tests.support.paths import ROOT

PUBLIC = [
    "DATASETS", "NETS", "PROBES", "RULES", "Dataset", "FauditError", "LocalRule", "Net", "Probe", "Reading", "Rule",
    "Run", "RunConfig", "Runs", "Step", "audit_model", "audit_run", "compare", "control", "fit", "generators",
    "load_model", "plot", "rule_state", "runs", "runs_in", "scatter", "watch",
]  # fmt: skip


def test_the_public_names_are_these_and_all_exist() -> None:
    assert faudit.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(faudit, name) is not None
    assert set(PUBLIC) <= set(dir(faudit))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(faudit, "Trainer")


def test_importing_faudit_imports_no_torch() -> None:
    code = (
        "import sys, faudit; faudit.RunConfig(); assert 'torch' not in sys.modules, 'torch'; faudit.fit; import torch"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_the_changelogs() -> None:
    assert f"## [{faudit.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
