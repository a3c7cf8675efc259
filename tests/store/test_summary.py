"""What is said of a run: from its end where it has one, else from every row, and the same numbers either way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store.summary import SUMMED, overview
from faudit.train import fit


def test_a_finished_runs_own_summary_is_what_its_rows_give(tmp_path: Path) -> None:
    run = fit(RunConfig(epochs=3, width=8, depth=2, batch_size=256), tmp_path)
    quick = overview(run)
    outcome = run.outcome() or {}
    for name in SUMMED:
        (run.path / "done.json").write_text(json.dumps({key: outcome[key] for key in outcome if key != name}))
        assert overview(run) == quick, "read from every row"
    (run.path / "done.json").write_text(json.dumps(outcome))
    for text, expected in ((b"{]", "line 2 is damaged"), (b'{"epoch": 1, x}', None)):
        lines = run.rows_file.read_bytes().split(b"\n")
        run.rows_file.write_bytes(b"\n".join([lines[0], text, *lines[2:]]))
        if expected:
            with pytest.raises(StoreError, match=expected):
                overview(run)
        with pytest.raises(StoreError, match="line 2 is damaged"):
            run.rows()
