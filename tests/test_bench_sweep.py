"""The sweep's benchmark runs end to end on a tiny study, and its numbers are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit import bench_sweep
from faudit.bench_sweep import TINY, lines, sweep_speed
from faudit.cli import main
from faudit.errors import ConfigError
from faudit.store import runs_in
from tests.test_train import without_timings


@pytest.mark.slow
def test_a_tiny_study_is_timed_alone_and_side_by_side(tmp_path: Path) -> None:
    configs = [TINY.with_(seed=seed, epochs=4) for seed in range(3)]
    result = sweep_speed(jobs=2, configs=configs, tiny=3, runs=tmp_path)
    assert (result["runs"], result["jobs"]) == (3, 2) and result["seconds_together"] > 0
    expected = result["seconds_together"] / (result["seconds_alone"] / 2)
    assert result["ratio"] == pytest.approx(expected, rel=0.05)
    for one, other in zip(runs_in(tmp_path / "alone"), runs_in(tmp_path / "together"), strict=True):
        assert one.name == other.name and without_timings(one.rows()) == without_timings(other.rows())
    over = result["overhead_of_a_tiny_run"]
    assert 0 < over["median"] <= over["most"] < 2.0  # the target is 0.5 s on a machine of one's own
    assert len(lines(result)) == 3 and "× (the sum / 2)" in lines(result)[1]


def test_the_command_prints_the_ratio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    over = {"median": 0.1, "most": 0.2}
    result = {"runs": 48, "jobs": 2, "seconds_alone": 100.0, "seconds_together": 55.0, "ratio": 1.1}
    monkeypatch.setattr(bench_sweep, "sweep_speed", lambda *, jobs: {**result, "overhead_of_a_tiny_run": over})
    assert main(["bench", "sweep"]) == 0
    assert "2 side by side: 55.0 s, 1.100 × (the sum / 2)" in capsys.readouterr().out


def test_what_cannot_be_timed_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 job"):
        sweep_speed(jobs=0)
