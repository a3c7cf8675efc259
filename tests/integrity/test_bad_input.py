"""Input that used to end in a traceback, a hang or a message about Python: each is one line now, and exit code 2."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faudit.cli.main import main
from faudit.config import TOML_LIMIT, RunConfig
from faudit.errors import OUT_OF_MEMORY
from faudit.store import index
from faudit.store.run import Run
from faudit.sweep.engine import answered
from faudit.train import fit
from tests.support.child import forked
from tests.support.fabricate import write

TINY = ["--width", "8", "--depth", "2", "--batch-size", "256", "--epochs", "1"]
MORE = 1 << 29  # bytes that a child may map beside what it has: enough for a tiny run


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def one_line(error: str) -> str:
    assert error.count("\n") == 1 and error.startswith("faudit: "), error
    return error


def test_a_run_that_does_not_fit_into_memory_is_one_line(tmp_path: Path) -> None:
    words = ["train", *TINY, "--runs", str(tmp_path)]
    assert forked([*words, "--seed", "1"], memory=MORE).code == 0, "the limit itself stops nothing"
    answer = forked([*words, "--width", "65536"], memory=MORE)
    assert answer.code == 2 and one_line(answer.err) == f"faudit: {OUT_OF_MEMORY}\n"
    assert len(list(tmp_path.iterdir())) == 1, "nothing of the run that did not fit is there"


def test_a_run_that_meets_the_end_of_memory_later_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two epochs, when the directory is there already."""
    config = RunConfig(width=8, depth=2, batch_size=256, epochs=2)

    def grown(*_: object) -> float:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 12 bytes")

    monkeypatch.setattr("faudit.train.one_epoch", grown)
    assert main(["train", *TINY[:-1], "2", "--runs", str(tmp_path)]) == 2
    assert Run(tmp_path / config.run_id).status == "stopped"
    monkeypatch.undo()
    assert fit(config, tmp_path).status == "done"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")])
def test_a_sweep_leaves_out_a_run_that_does_not_fit(error: Exception) -> None:
    def train(_: RunConfig) -> str:
        raise error

    answer = answered(RunConfig(), train)
    assert (answer.word, answer.text, answer.remarks) == ("refused", OUT_OF_MEMORY, ())


def spoil(run: Run, entry: str, value: str) -> None:
    """Give the last row another value."""
    *others, last = run.rows_file.read_text().splitlines()
    row = json.loads(last)
    row.pop(entry)
    text = json.dumps(row)[1:-1]
    line = f'{{"{entry}": {value}, {text}}}' if entry == "epoch" else f'{{{text}, "{entry}": {value}}}'
    run.rows_file.write_text("\n".join([*others, line, ""]))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("gamma", '{"a": 1}'),
        ("gamma", "[[0.1], [0.2, 0.3], 0.4, []]"),
        ("gamma", '["x", 0.1, 0.1, 0.1]'),
        ("gamma", '"x"'),
        ("hidden_norms", "[[1.0, 2.0], [3.0], [], [4.0], [5.0]]"),
        ("hidden_norms", '{"a": 1}'),
        ("grad_norms", '[1.0, 2.0, 3.0, 4.0, {"a": 1}]'),
        ("acc_eval", '{"a": 1}'),
        ("loss_eval", "[1.0]"),
        ("epoch", "1" + "0" * 400),
        ("epoch", '"2"'),
    ],
)
@pytest.mark.parametrize("until", [None, 2], ids=["finished", "stopped"])
def test_one_damaged_row_hides_no_other_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, value: str, until: int | None
) -> None:
    good = write(RunConfig(epochs=3, seed=1), tmp_path)
    bad = write(RunConfig(epochs=3, seed=2), tmp_path, until=until)
    spoil(bad, entry, value)
    for flags in ([], ["--json"]):
        code, out, err = said(capsys, ["show", "--runs", str(tmp_path), *flags])
        assert code == 2 and good.name in out and bad.name not in out
        assert str(bad.path) in one_line(err) and not PYTHON.search(err)
    code, out, err = said(capsys, ["show", bad.name, "--runs", str(tmp_path)])
    assert code == 2 and str(bad.path) in one_line(err) and not PYTHON.search(err)


PYTHON = re.compile(r"\b[A-Z]\w*(Error|Exception)\b|Traceback|object at 0x")


@pytest.mark.parametrize("file", ["done.json", "env.json"])
@pytest.mark.parametrize("value", ['{"a": 1}', "1" + "0" * 400, '["x"]'])
def test_one_damaged_end_or_environment_hides_no_other_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, value: str
) -> None:
    good = write(RunConfig(epochs=1, seed=1), tmp_path)
    bad = write(RunConfig(epochs=1, seed=2), tmp_path)
    summed = f'"test_acc": {value}, "growth_max": 1.0, "seconds": 1.0'
    (bad.path / file).write_text(f'{{"data_sha256": {value}, {summed}, "weights_sha256": {value}}}')
    for flags in ([], ["--json"]):
        code, out, err = said(capsys, ["show", "--runs", str(tmp_path), *flags])
        assert code == 2 and good.name in out and bad.name not in out
        assert f"{bad.path / file} is damaged" in one_line(err) and not PYTHON.search(err)


@pytest.mark.parametrize("seconds", ['"inf"', "-1.0", "1e300"])
def test_a_total_time_that_is_none_is_told_and_gives_no_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    bad = write(RunConfig(epochs=1, seed=2), tmp_path / "runs")
    summed = f'"test_acc": 0.5, "growth_max": 1.0, "seconds": {seconds}'
    (bad.path / "done.json").write_text(f'{{"epochs": 1, {summed}, "weights_sha256": "{"0" * 64}"}}')
    study = tmp_path / "study.toml"
    study.write_text("epochs = 1\n[grid]\nseed = [1]\n")
    for words in (["show"], ["sweep", str(study), "--dry-run"]):
        _, _, err = said(capsys, [*words, "--runs", str(tmp_path / "runs")])
        assert f"{bad.path / 'done.json'} is damaged: 'seconds': expected a number from 0" in one_line(err)


def test_a_row_that_lacks_an_entry_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(RunConfig(epochs=1), tmp_path, until=1)
    text = run.rows_file.read_text()
    run.rows_file.write_text(text.replace('"gamma": ', '"gomma": '))
    code, _, err = said(capsys, ["show", run.name, "--runs", str(tmp_path)])
    assert code == 2 and "'gamma'" in one_line(err) and not PYTHON.search(err)


@pytest.mark.parametrize("words", [["show"], ["show", "RUN"], ["audit", "RUN"], ["export", "--format", "csv"]])
@pytest.mark.parametrize("special", ["a link to itself", "a pipe", "a directory"])
def test_rows_that_are_no_file_are_told_of(tmp_path: Path, words: list[str], special: str) -> None:
    """In a child: a regression would wait for ever at the pipe."""
    run = write(RunConfig(epochs=1), tmp_path / "runs")
    run.rows_file.unlink()
    if special == "a pipe":
        os.mkfifo(run.rows_file)
    elif special == "a directory":
        run.rows_file.mkdir()
    else:
        run.rows_file.symlink_to(run.rows_file)
    out = ["--out", str(tmp_path / "rows")] if "export" in words else []
    words = [run.name if word == "RUN" else word for word in words]
    answer = forked([*words, "--runs", str(tmp_path / "runs"), *out], patience=20)
    assert answer.code == 2 and not answer.hung and str(run.rows_file) in answer.err
    assert answer.err.count("\n") <= 2 and "Traceback" not in answer.err


def test_a_store_whose_path_is_no_utf_8_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / os.fsdecode(b"st\xff\xfere")
    monkeypatch.setattr(index, "FROM", 2)
    assert main(["train", *TINY, "--runs", str(store)]) == 0
    (run,) = store.iterdir()
    run.rename(store / os.fsdecode(b"r\xfcn"))
    write(RunConfig(epochs=1), store)
    capsys.readouterr()
    for _ in range(2):  # the second time from the index
        code, out, err = said(capsys, ["show", "--runs", str(store), "--json"])
        assert (code, err) == (0, "") and {one["run"] for one in json.loads(out)} == set(map(str, store.glob("*[!e]")))
    assert said(capsys, ["show", "--runs", str(store)])[0] == 0
    page = tmp_path / "page.md"
    for words in (["--json"], ["--markdown", str(page)]):
        code, out, err = said(capsys, ["audit", os.fsdecode(b"r\xfcn"), "--runs", str(store), *words])
        assert code in (1, 3) and err == ""
    assert said(capsys, ["export", "--format", "csv", "--runs", str(store), "--out", str(tmp_path / "rows")])[0] == 0


def test_a_file_named_like_one_of_pythons_does_not_disturb_the_module(tmp_path: Path) -> None:
    for name in ("random.py", "queue.py", "tempfile.py"):
        (tmp_path / name).write_text("raise SystemError('not this one')\n")
    words = [sys.executable, "-m", "faudit", "show", "--runs", "."]
    done = subprocess.run(words, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always looks into the working directory first")
@pytest.mark.slow
def test_a_file_named_like_one_of_pythons_does_not_disturb_the_workers_of_a_sweep(tmp_path: Path) -> None:
    for name in ("types.py", "queue.py", "random.py", "selectors.py"):
        (tmp_path / name).write_text("raise SystemError('not this one')\n")
    (tmp_path / "study.toml").write_text("epochs = 1\nwidth = 8\ndepth = 2\nbatch-size = 256\n")
    script = "import sys; from faudit.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-P", "-c", script, "sweep", "study.toml"]  # a script has no working directory in its path
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and "1 done, 0 failed" in done.stdout, done.stderr


def endless(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end
    except PermissionError:
        pytest.skip("only root may make a device")


UNREADABLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a pipe": (lambda path: os.mkfifo(path), "expected a file, got a directory, device or pipe"),
    "an endless device": (endless, "expected a file, got a directory, device or pipe"),
    "a directory": (lambda path: path.mkdir(), "expected a file, got a directory, device or pipe"),
    "too large": (lambda path: path.write_bytes(b"#" * (TOML_LIMIT + 1)), "expected at most 1,048,576 bytes"),
}


@pytest.mark.parametrize("kind", list(UNREADABLE))
@pytest.mark.parametrize("words", [["train", "--config"], ["sweep"]], ids=["config", "study"])
def test_a_config_or_study_without_an_end_is_not_waited_for(tmp_path: Path, kind: str, words: list[str]) -> None:
    make, told = UNREADABLE[kind]
    make(tmp_path / "file.toml")
    answer = forked([*words, "file.toml"], cwd=tmp_path, memory=MORE, patience=20)
    assert answer.code == 2 and not answer.hung and told in one_line(answer.err)


def test_a_factory_that_is_no_callable_is_not_suggested_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain_names.py").write_text("model = 3\nmodels = 4\ndef moderl(): ...\n")
    monkeypatch.chdir(tmp_path)
    words = ["audit", "--data", "digits", "--taps", "1", "--model"]
    assert "expected a callable, got 'model', which is 3" in one_line(said(capsys, [*words, "plain_names:model"])[2])
    assert "no callable 'modl', did you mean 'moderl'?" in one_line(said(capsys, [*words, "plain_names:modl"])[2])


def test_an_unknown_run_lists_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write(RunConfig(epochs=1, seed=seed), tmp_path) for seed in range(100)]
    for words in (["show"], ["audit"]):
        err = one_line(said(capsys, [*words, f"{runs[7].name[:-2]}zz", "--runs", str(tmp_path)])[2])
        assert f"did you mean '{runs[7].name}'?" in err and "one of the 100 runs in" in err
        assert len(err.replace(str(tmp_path), "")) < 300
    assert "File name too long" in one_line(said(capsys, ["show", "x" * 300, "--runs", str(tmp_path)])[2])
