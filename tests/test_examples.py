"""Every example runs as it stands, in an empty directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(tmp_path: Path, example: Path) -> None:
    words = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=120, resources={"metadata": {"path": sys.argv[2]}}).execute()
print(json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_shows_tables_and_pictures(tmp_path: Path, notebook: Path) -> None:
    words = [sys.executable, "-c", EXECUTE, str(notebook), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)
    assert not [output for cell in outputs for output in cell if output.get("name") == "stderr"]
    pages = [
        output["data"]["text/html"] for cell in outputs for output in cell if "text/html" in output.get("data", {})
    ]
    assert len(pages) == 6 and any("data:image/png;base64," in page for page in pages)
    assert (tmp_path / "runs.pdf").exists() and (tmp_path / "runs.json").exists()


def test_notebooks_are_kept_without_outputs() -> None:
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), notebook.name


def test_there_are_examples() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["09_notebook"]
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
