"""The index answers as the run directories do, whatever happens to it, and thousands of runs stay interactive."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from faudit.cli.main import main
from faudit.cli.tables import COLUMNS, LEFT, line, plain
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store import index
from faudit.store.index import entries
from faudit.store.run import Run
from faudit.store.summary import overview
from faudit.store.where import conditions, matches
from tests.support.fabricate import write

RULES = ("bp", "fa", "dfa", "frozen-dfa")
DFA_OF_42 = ("--where", "rule=dfa", "--where", "seed=42")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four finished runs, one that is not, and an index for as few as that."""
    monkeypatch.setattr(index, "FROM", 2)
    for seed, rule in enumerate(RULES):
        write(RunConfig(rule=rule, epochs=3, seed=seed), tmp_path / "runs")
    write(RunConfig(rule="bp", epochs=3, seed=9), tmp_path / "runs", until=1)
    return tmp_path / "runs"


def read_afresh(store: Path) -> list[dict[str, Any]]:
    """What the directories say."""
    paths = sorted(path.parent for path in store.glob("*/config.json"))
    return [json.loads(json.dumps(overview(Run(path)))) for path in paths]


def no_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which runs are read from now on."""
    read: list[str] = []

    def watched(run: Run) -> dict[str, Any]:
        read.append(run.name)
        return overview(run)

    monkeypatch.setattr(index, "overview", watched)
    return read


def test_what_is_remembered_is_what_is_there(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    afresh = read_afresh(store)
    assert entries(store) == (afresh, []) and (store / "index.sqlite").exists()
    read = no_reading(monkeypatch)
    assert entries(store) == (afresh, [])
    assert read == [RunConfig(rule="bp", epochs=3, seed=9).run_id], "only what has not ended is read again"


def test_a_changed_new_or_deleted_run_is_seen(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries(store)
    changed, deleted = (
        Run(store / RunConfig(rule=rule, epochs=3, seed=RULES.index(rule)).run_id) for rule in RULES[:2]
    )
    changed.rows_file.write_text(changed.rows_file.read_text().replace('"acc_eval": 0.', '"acc_eval": 0.9'))
    shutil.rmtree(deleted.path)
    new = write(RunConfig(rule="dfa", epochs=3, seed=77), store)
    read = no_reading(monkeypatch)
    assert entries(store) == (read_afresh(store), [])
    assert {changed.name, new.name} <= set(read) and len(read) == 3
    with sqlite3.connect(store / "index.sqlite") as database:
        names = {name for (name,) in database.execute("SELECT name FROM runs")}
    database.close()
    assert deleted.name not in names and new.name in names


def test_a_damaged_index_is_made_anew_and_nobody_notices(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries(store)
    path, afresh = store / "index.sqlite", read_afresh(store)
    whole = path.read_bytes()
    other = b"".join(bytes([byte ^ 255]) if 5000 < i < 9000 else bytes([byte]) for i, byte in enumerate(whole))
    for data in (b"", b"not a database", whole[: len(whole) // 2], other):
        path.write_bytes(data)
        assert entries(store) == (afresh, [])
        read = no_reading(monkeypatch)
        assert entries(store) == (afresh, []) and len(read) == 1, "it was made anew"
        monkeypatch.undo()
        monkeypatch.setattr(index, "FROM", 2)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (name TEXT, something INTEGER)")
    database.close()
    assert entries(store) == entries(store) == (afresh, [])


def test_an_index_that_cannot_be_written_is_done_without(store: Path) -> None:
    (store / "index.sqlite").mkdir()  # nothing can be written or removed there, not even by root
    assert entries(store) == entries(store) == (read_afresh(store), [])


def test_an_index_that_another_process_writes_is_done_without(store: Path) -> None:
    entries(store)
    write(RunConfig(rule="dfa", epochs=3, seed=77), store)
    database = sqlite3.connect(store / "index.sqlite", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    try:
        assert entries(store) == (read_afresh(store), [])
    finally:
        database.close()
    assert entries(store) == (read_afresh(store), [])


def test_damaged_runs_are_named_every_time_and_stay(store: Path) -> None:
    damaged = store / "zz"
    damaged.mkdir()
    (damaged / "config.json").write_text("{")
    (damaged / "done.json").write_text("{}")
    for _ in range(2):
        found, problems = entries(store)
        assert len(found) == 5 and len(problems) == 1 and str(damaged) in problems[0]
    assert (damaged / "config.json").read_text() == "{"


def test_a_small_store_has_no_index(tmp_path: Path) -> None:
    write(RunConfig(epochs=2), tmp_path)
    entries(tmp_path)
    assert not (tmp_path / "index.sqlite").exists()


def test_where_takes_all_keys_and_any_value_of_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> set[str]:
        flags = [flag for word in words for flag in ("--where", word)]
        assert main(["show", "--runs", str(store), "--json", *flags]) == 0
        return {f"{one['config']['rule']} {one['config']['seed']}" for one in json.loads(capsys.readouterr().out)}

    assert shown("rule=dfa") == {"dfa 2"} and shown("rule=dfa", "rule=fa") == {"dfa 2", "fa 1"}
    assert shown("rule=dfa", "seed=1") == set() and shown("rule=bp", "status=done") == {"bp 0"}
    assert shown("status=stopped") == {"bp 9"} and len(shown("lr=0.001", "no-residual=false", "epochs=3")) == 5
    assert shown("keep-epochs=1") == set()


def test_where_refuses_what_no_run_can_have() -> None:
    with pytest.raises(ConfigError) as caught:
        conditions(["rul=dfa", "seed=x", "seed", "status=finished", "no-residual=perhaps", "rule=dfaa"])
    lines = str(caught.value).splitlines()
    assert len(lines) == 6 and "did you mean 'rule'" in lines[0] and "expected KEY=VALUE" in lines[2]
    assert "done, failed, running, stopped" in lines[3]
    assert matches({"config": {}, "status": "done"}, conditions([]))


def test_plain_lines_say_what_the_table_says(store: Path) -> None:
    found = entries(store)[0]
    heads, *text = list(plain(COLUMNS, list(map(line, found)), left=LEFT))
    assert heads.split()[:3] == ["run", "status", "epoch"] and len(text) == 5
    for entry, words in zip(found, text, strict=True):
        assert words.split() == " ".join(line(entry)).split()
    assert len({words.index("/3") for words in text}) == 1, "the columns are aligned"


@pytest.mark.slow
def test_ten_thousand_runs_are_shown_within_seconds(tmp_path: Path) -> None:
    """Processor time against that of a program that only reads the files, because the speed of machines varies.

    The better of two times counts: what else a machine does can only lengthen them.
    """
    template = write(RunConfig(rule="dfa", epochs=10, seed=10**6), tmp_path / "template").path
    files = {path.name: path.read_text() for path in template.iterdir()}
    done = {"epochs": 10, "test_acc": 0.3, "growth_max": 2.5, "seconds": 12.1, "weights_sha256": "0" * 64}
    rest = {"env.json": files["env.json"], "rows.jsonl": files["rows.jsonl"], "done.json": json.dumps(done)}
    for seed in range(10_000):
        config = RunConfig(rule=RULES[seed % 4], epochs=10, seed=seed)
        folder = tmp_path / "runs" / config.run_id
        folder.mkdir(parents=True)
        document = {"format": 1, "run_id": config.run_id, "config": config.to_json()}
        for name, text in {"config.json": json.dumps(document), **rest}.items():
            (folder / name).write_text(text)

    def show(*flags: str) -> tuple[float, int, str]:
        words = ["show", "--runs", str(tmp_path / "runs"), *flags]
        return timed(f"from faudit.cli.main import main\nassert main({words!r}) == 0\n")

    def read_only() -> float:
        paths = f"sorted(pathlib.Path({str(tmp_path / 'runs')!r}).glob('*/*.json*'))"
        code = f"for path in {paths}:\n    [json.loads(line) for line in path.read_bytes().splitlines()]\n"
        return timed(f"import json, pathlib\n{code}")[0]

    def timed(job: str) -> tuple[float, int, str]:
        code = (  # VmHWM is its own; ru_maxrss would be at least that of the process that started it
            f"import re, resource, sys\n{job}"
            "used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
            "print(used.ru_utime + used.ru_stime, int(peak) // 1024, file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        spent, memory = done.stderr.split()[-2:]  # after the progress
        return float(spent), int(memory), done.stdout

    started = time.monotonic()
    plain_reading = min(read_only(), read_only())
    cold, memory, first = show()
    (tmp_path / "runs" / "index.sqlite").unlink()
    cold = min(cold, show()[0])
    warm, _, again = min(show(), show())
    some, _, chosen = min(show(*DFA_OF_42), show(*DFA_OF_42))
    print(
        f"plain {plain_reading:.2f} s, cold {cold:.2f} s, warm {warm:.2f} s, filtered {some:.2f} s, {memory} MB, "
        f"{time.monotonic() - started:.1f} s"
    )
    assert first == again and first.count("\n") == 10_001 and chosen.count("\n") == 2
    assert cold <= 3 * plain_reading and max(warm, some) <= plain_reading / 2 and memory <= 500
