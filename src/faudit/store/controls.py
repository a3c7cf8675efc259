"""The measured controls of a watched run, ``control.json`` in its directory: accuracies with frozen blocks.

faudit finds the control of its own runs in the store. A watched loop cannot be trained again by faudit, so the user
trains the control, and its accuracy is kept with the run.
"""

from __future__ import annotations

from typing import Any

from faudit.store.files import read_json, write_json
from faudit.store.run import Run, damaged, sealed

FORMAT = 1
FILE = "control.json"


def read(run: Run) -> list[float]:
    """The accuracies of the controls of a run."""
    path = run.path / FILE
    if not path.exists():
        return []
    document: Any = read_json(path)
    seal = {name: value for name, value in document.items() if name != "seal"}
    if document.get("format") != FORMAT or document != sealed(seal) or document.get("run_id") != run.config().run_id:
        raise damaged(path, "it was edited, or belongs to another run")
    accuracies: list[float] = document["accuracies"]
    return accuracies


def attach(run: Run, accuracy: float) -> None:
    """Add the accuracy of one more control."""
    accuracies = [*read(run), accuracy]
    write_json(run.path / FILE, sealed({"format": FORMAT, "run_id": run.config().run_id, "accuracies": accuracies}))
