"""The sweep's benchmark runs end to end on a tiny study, and its numbers are correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.bench import sweep as bench_sweep
from faudit.bench.sweep import lines, sweep_speed, swept
from faudit.cli.main import main
from faudit.errors import ConfigError, StoreError
from faudit.store.run import runs_in
from tests.support.runs import without_timings


@pytest.mark.slow
def test_a_tiny_study_is_timed_alone_and_side_by_side(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text('data = "digits"\nepochs = 4\nwidth = 8\ndepth = 2\nbatch-size = 256\n[grid]\nseed = [0, 1, 2]\n')
    result = sweep_speed(jobs=2, study=study, tiny=3, runs=tmp_path)
    assert (result["runs"], result["jobs"]) == (3, 2) and result["seconds_together"] > 0
    expected = result["seconds_together"] / (result["seconds_alone"] / 2)
    assert result["ratio"] == pytest.approx(expected, rel=0.05)
    for one, other in zip(runs_in(tmp_path / "alone"), runs_in(tmp_path / "together"), strict=True):
        assert one.name == other.name and without_timings(one.rows()) == without_timings(other.rows())
    over = result["overhead_of_a_tiny_run"]
    assert over["median"] <= over["most"] < 2.0  # stacked runs share their time, so it can be below zero
    assert len(lines(result)) == 3 and "× (the sum / 2)" in lines(result)[1]


def test_the_command_prints_the_ratio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    over = {"median": 0.1, "most": 0.2}
    result = {"runs": 48, "jobs": 2, "seconds_alone": 100.0, "seconds_together": 55.0, "ratio": 1.1}
    monkeypatch.setattr(bench_sweep, "sweep_speed", lambda *, jobs: {**result, "overhead_of_a_tiny_run": over})
    assert main(["bench", "sweep"]) == 0
    assert "`faudit sweep` with 2 at once: 55.0 s, 1.100 × (the sum / 2)" in capsys.readouterr().out


def test_what_cannot_be_timed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1 experiment"):
        sweep_speed(jobs=0)
    with pytest.raises(StoreError, match=r"ended with exit code 2: faudit: cannot read the study"):
        swept(tmp_path / "absent.toml", tmp_path / "runs", jobs=1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sweep", "--threads", "2"], "bench sweep does not read --threads: leave it out (it reads --jobs)"),
        (["sweep", "--seeds", "7", "--out", "x", "--jobs", "1"], "does not read --seeds, --out"),
        (["sweep", "--data-dir", "x"], "does not read --data-dir"),
        (["protocol", "--repeats", "3"], "does not read --repeats: leave it out (it reads --seeds, --jobs, --out)"),
        (["train", "--jobs", "2"], "bench train does not read --jobs"),
        (["audit", "--seeds", "7"], "bench audit does not read --seeds"),
    ],
)
def test_a_flag_that_means_nothing_to_a_benchmark_is_refused(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert expected in err and err.count("\n") == 1 and out == ""
