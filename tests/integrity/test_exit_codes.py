"""An exit code means the verdict, or the one thing that kept the command from giving it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faudit.cli.main import main
from tests.support.child import forked
from tests.support.paths import ROOT

TINY = ["--width", "8", "--depth", "2", "--batch-size", "256", "--epochs", "2"]
CODES = {"trustworthy": 0, "needs walk-back": 1, "inconclusive": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished DFA run, without its control."""
    path = tmp_path_factory.mktemp("store")
    assert main(["train", "--rule", "dfa", *TINY, "--runs", str(path)]) == 0
    return path


@pytest.fixture
def run(store: Path) -> str:
    return str(next(store.iterdir()))


@pytest.fixture
def nobody() -> Iterator[int]:
    """A pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("words", [["audit", "RUN"], ["audit", "RUN", "--json"], ["show"], ["show", "RUN"], ["--help"]])
def test_a_reader_that_left_is_no_verdict(store: Path, run: str, nobody: int, words: list[str]) -> None:
    words = [run if word == "RUN" else word for word in words]
    answer = forked([*words, "--runs", str(store)] if words == ["show"] else words, stdout=nobody)
    assert (answer.code, answer.err) == (141, "")


@pytest.mark.parametrize("words", [["list", "rules"], ["--help"], ["show", "--runs", "."]])
def test_what_is_left_in_the_buffer_at_the_end_of_the_process_is_answered_too(
    nobody: int, tmp_path: Path, words: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faudit", *words], stdout=nobody, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")


FOREIGN = """
import sys
import torch
from torch import nn

class Exit(BaseException): ...

def build(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
def leaving(): sys.exit(0)
def failing(): raise Exit

class Leaves(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 10)
    def forward(self, x):
        sys.exit(0)

def credit(taps, logits, y): sys.exit(0)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the working directory."""
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    name = f"foreign_{tmp_path.name}"  # a module is imported once in a process
    (tmp_path / f"{name}.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--model", "leaving:build"], 71),
        (["--model", "MODULE:leaving"], 71),
        (["--model", "MODULE:Leaves", "--taps", "body"], 71),
        (["--model", "MODULE:build", "--credit", "MODULE:credit"], 71),
        (["--model", "MODULE:build", "--credit", "leaving:credit"], 71),
        (["--model", "MODULE:failing"], 70),
    ],
)
def test_code_of_the_users_cannot_give_a_verdict(
    module: str, capsys: pytest.CaptureFixture[str], flags: list[str], code: int
) -> None:
    words = ["audit", "--data", "digits", "--samples", "16", "--taps", "1", *flags]
    assert main([word.replace("MODULE", module) for word in words]) == code
    said = capsys.readouterr()
    assert said.out == ""
    if code == 71:
        assert said.err == "faudit: your code called sys.exit(0) before faudit was done. Take that call out.\n"
    else:
        assert said.err.startswith("Traceback")


def test_a_bug_inside_the_audit_is_no_verdict(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["audit", run]) in CODES.values()
    capsys.readouterr()

    def planted(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("faudit.audit.audit.judge", planted)
    assert main(["audit", run]) == 70
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("Traceback") and "RuntimeError: planted" in said.err


@pytest.mark.parametrize("words", [["audit", "RUN"], ["show", "RUN", "--json"], ["--help"]])
def test_a_full_disk_behind_stdout_is_one_line(run: str, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        answer = forked([run if word == "RUN" else word for word in words], stdout=full.fileno())
    assert answer.code == 74 and answer.err.startswith("faudit: the result cannot be written to standard output: No sp")
    assert answer.err.count("\n") == 1


def test_a_full_disk_behind_stderr_costs_no_result(run: str) -> None:
    code = f"from faudit.cli.main import main; import sys; sys.exit(main(['show', {run!r}, '--json']))"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, cwd=Path(run).parent, check=False
        )
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "done"


@pytest.mark.parametrize("closed", [[1], [2], [1, 2], [0, 1, 2]], ids=str)
def test_closed_streams_are_no_reason_not_to_train(tmp_path: Path, closed: list[int]) -> None:
    """Nor does a file of the run become the stream that is closed."""
    answer = forked(["train", *TINY, "--runs", str(tmp_path)], closed=closed)
    (run,) = tmp_path.iterdir()
    assert answer.code == 0 and (run / "done.json").exists()
    assert [line[:9] for line in (run / "rows.jsonl").read_text().splitlines()] == ['{"epoch":'] * 3
    assert ("done.json" in answer.err) is False and (str(run) in answer.out) is (1 not in closed)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_shell_closed(tmp_path: Path, closed: str) -> None:
    words = f"{sys.executable} -m faudit train {' '.join(TINY)} --runs {tmp_path} {closed}"
    assert subprocess.run(["sh", "-c", words], capture_output=True, check=False).returncode == 0
    (run,) = tmp_path.iterdir()
    assert (run / "done.json").exists()


INTERRUPTS = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupts(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "faudit.cli.audit":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
sys.argv[1:] = ["list", "rules"]
"""


@pytest.mark.parametrize("way", ["module", "script"])
def test_an_interrupt_during_the_imports_is_answered_in_one_line(way: str) -> None:
    declared = re.search(r'^faudit = "(.+):(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    module, function = declared.groups()
    start = {
        "module": "import runpy; runpy.run_module('faudit', run_name='__main__', alter_sys=True)",
        "script": f"from {module} import {function}; sys.exit({function}())",
    }
    done = subprocess.run([sys.executable, "-c", INTERRUPTS + start[way]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nfaudit: interrupted.\n")


def test_the_help_and_the_page_list_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    from faudit.cli import main as command_line

    assert main(["--help"]) == 0
    shown, page = capsys.readouterr().out, (ROOT / "docs" / "cli.md").read_text()
    for name in ("ERROR", "BUG", "FOREIGN_EXIT", "NO_OUTPUT", "INTERRUPTED", "CLOSED_PIPE"):
        code = getattr(command_line, name)
        assert f" {code} " in shown.replace("\n", " ") and f"| {code} |" in page
