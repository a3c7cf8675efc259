"""One command runs every part with what was asked, and keeps the document after each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faudit.bench import everything as every
from faudit.bench import hourly, memory, startup
from faudit.bench.everything import Asked, Part
from faudit.bench.tables import TABLES
from faudit.bench.timing import noise
from faudit.bench.train import Steps
from faudit.cli.bench import bench_part
from faudit.cli.main import main
from faudit.config import read_toml
from faudit.errors import StoreError
from tests.support.paths import ROOT

EVIDENCE = ROOT / "evidence" / "bench-all.json"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Two parts that measure nothing and keep what they were given."""
    given: dict[str, dict[str, Any]] = {}

    def one(**settings: Any) -> dict[str, Any]:
        given["one"] = settings
        return {"what": "one"}

    def two(**settings: Any) -> dict[str, Any]:
        given["two"] = settings
        return {"what": "two"}

    steps = {"resmlp": Steps(8, 4)}
    parts = {
        "one": Part(one, lambda result: [result["what"]], ("threads_used", "steps"), {"repeats": 5, "steps": steps},
                    {"repeats": 2, "steps": steps}),
        "two": Part(two, lambda result: [result["what"]], ("data_dir", "jobs")),
    }  # fmt: skip
    monkeypatch.setattr(every, "PARTS", parts)
    return given


def test_every_part_gets_what_was_asked_and_nothing_else(seen: dict[str, dict[str, Any]]) -> None:
    *_, document = every.everything(Asked(threads_used=3, jobs=4))
    assert seen == {"one": {"threads_used": 3, "repeats": 5, "steps": {"resmlp": Steps(8, 4)}},
                    "two": {"data_dir": None, "jobs": 4}}  # fmt: skip
    assert list(document["parts"]) == list(document["durations"]) == ["one", "two"] and document["complete"]
    list(every.everything(Asked(quick=True)))
    assert seen["one"]["repeats"] == 2
    list(every.everything(Asked(quick=True, repeats=9, steps=6)))
    assert seen["one"]["repeats"] == 9 and seen["one"]["steps"] == {"resmlp": Steps(6, 4)}


def test_the_command_writes_the_document_after_each_part(
    seen: dict[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "all.json"
    assert main(["bench", "--quick", "--threads", "1", "--out", str(out)]) == 0
    assert "\none\n\ntwo\n" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["complete"] and document["machine"]["threads"] == 1 and document["what"].endswith("quick")

    def broken(**_: object) -> dict[str, Any]:
        raise StoreError("bench: the second part failed")

    monkeypatch.setitem(every.PARTS, "two", Part(broken, lambda _: [], ()))
    assert main(["bench", "--out", str(out)]) == 2
    assert capsys.readouterr().err == "faudit: bench: the second part failed\n"
    document = json.loads(out.read_text())
    assert list(document["parts"]) == ["one"] and not document["complete"]


def test_a_part_that_is_killed_keeps_what_it_had(
    seen: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*, keep: Any) -> dict[str, Any]:
        keep({"what": "a half"})
        raise KeyboardInterrupt

    monkeypatch.setitem(every.PARTS, "two", Part(killed, lambda _: [], ("keep",)))
    kept: list[dict[str, Any]] = []
    with pytest.raises(KeyboardInterrupt):
        list(every.everything(Asked(), kept.append))
    assert kept[0]["parts"] == {"one": {"what": "one"}, "two": {"what": "a half"}} and not kept[0]["complete"]
    with pytest.raises(KeyboardInterrupt):
        bench_part("two", out=tmp_path / "two.json")
    assert json.loads((tmp_path / "two.json").read_text()) == {"what": "a half"}


@pytest.mark.slow
def test_a_command_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"bench: `-m faudit train --epochs x` ended with exit code 2: faudit: epochs"):
        startup.started(("-m", "faudit", "train", "--epochs", "x"), tmp_path)
    with pytest.raises(StoreError, match=r"bench: a run of nothing ended with exit code 1: .*rule: expected one of"):
        memory.peak_of("nothing", 1, None)


def test_starts_are_told_over_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: startup.COMMANDS[name] for name in (startup.BARE, "faudit --help")}
    monkeypatch.setattr(startup, "COMMANDS", few)
    result = startup.startup_speed(repeats=1)
    assert set(result["over_python"]) == {"faudit --help"} and result["over_python"]["faudit --help"]["median"] > 1
    assert len(startup.lines(result)) == 3


def test_a_peak_is_that_of_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "pictures", lambda _: noise(1200))
    assert 5e7 < memory.train_one("dfa", 1, None) < 1e11
    monkeypatch.setattr(memory, "peak_of", lambda rule, threads, folder: 123_400_000)
    assert memory.memory_used(data_dir=None, threads_used=1)["peak_mb"] == {"bp": 123, "dfa": 123}


@pytest.mark.slow
def test_runs_per_hour_are_those_of_the_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hourly, "pictures", lambda _: noise(1200))
    monkeypatch.setattr(hourly, "seconds", lambda work: 2.0)  # of 4 steps: 512 of 1000 samples
    grids = []

    def swept(study: Path, store: Path, *, jobs: int, data_dir: Path | None) -> float:
        grids.append(read_toml(study, "study", advice=""))
        return 50.0

    monkeypatch.setattr(hourly, "swept", swept)
    result = hourly.hourly_speed(data_dir=None, threads_used=1, jobs=2, repeats=2, runs=4, epochs=3, plain_steps=4)
    assert result["runs_per_hour"]["sweep"]["median"] == 3600 * 4 / 50
    assert result["runs_per_hour"]["plain"]["median"] == pytest.approx(3600 / (3 * 2.0 * 1000 / 512), abs=0.1)
    assert result["more"]["median"] == pytest.approx(288 / 307.2, abs=0.01)
    expected = {"data": "bench_noise:noise_set", "epochs": 3, "grid": {"rule": ["bp", "dfa"], "seed": [0, 1]}}
    assert grids == [{**expected, "train-size": 0}] * 2
    assert "half BP, half DFA" in hourly.lines(result)[0]


@pytest.mark.skipif(not EVIDENCE.exists(), reason="evidence/bench-all.json is not there: `faudit bench --out` makes it")
def test_the_tables_are_those_of_the_committed_document() -> None:
    document = json.loads(EVIDENCE.read_text())
    assert document["complete"] and set(document["parts"]) == set(every.PARTS)
    page = (ROOT / "docs" / "performance.md").read_text()
    for mark, made in TABLES.items():
        assert f"<!-- {mark} -->\n{made(document)}\n<!-- /{mark} -->" in page, mark
