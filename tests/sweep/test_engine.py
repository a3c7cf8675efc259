"""One attempt at a run: what it answers when the run ends, when another process ended it, and when it meets a bug."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from faudit.sweep.engine import Answer, attempt
from faudit.train import fit
from tests.support.runs import TINY


def test_a_run_that_lacked_nothing_but_its_end_is_told_as_ours(tmp_path: Path) -> None:
    run = fit(TINY, tmp_path)
    assert attempt(TINY.to_json(), tmp_path, data_dir=None).text == "by another process"
    (run.path / "done.json").unlink()
    assert attempt(TINY.to_json(), tmp_path, data_dir=None) == Answer("ended") and run.status == "done"


@pytest.mark.filterwarnings("default")
def test_an_unexpected_exception_is_told_with_its_run_and_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writes(*_: object, **__: object) -> list[Any]:
        warnings.warn("look here", stacklevel=1)
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("faudit.train.writes", writes)
    answer = attempt(TINY.to_json(), tmp_path, data_dir=None)
    assert (answer.word, answer.text) == ("raised", "met a bug: ZeroDivisionError('of all things')")
    warning, bug = answer.remarks
    assert warning == "faudit: warning: look here"
    assert bug.startswith(f"{TINY.run_id} met a bug:\nTraceback") and 'raise ZeroDivisionError("of' in bug
