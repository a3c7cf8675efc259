"""TensorBoard gets every row of a study once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faudit.train import fit
from tests.support.runs import TINY
from tests.support.studies import TWO_RULES, sweep


@pytest.mark.slow
def test_tensorboard_gets_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    run = fit(TINY, tmp_path / "runs")
    for _ in range(2):  # again: nothing is told twice
        sweep(capsys, tmp_path, TWO_RULES, "--jobs", "1", "--tensorboard", str(tmp_path / "board"))
    for name in (run.name, TINY.with_(rule="dfa").run_id):
        (file,) = (tmp_path / "board" / name).iterdir()
        events = [event for event in EventFileLoader(str(file)).Load() if event.HasField("summary")]
        found = {event.step: {value.tag for value in event.summary.value} for event in events}
        assert list(found) == [0, 1, 2] and {"acc_eval", "hidden_norms/2", "gamma/1"} <= found[2]
        assert "train_loss" in found[1] and "train_loss" not in found[0]


def test_without_tensorboard_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, _, err = sweep(capsys, tmp_path, TWO_RULES, "--tensorboard", str(tmp_path / "board"))
    assert code == 2 and "pip install 'faudit[tensorboard]'" in err and err.count("\n") == 1
