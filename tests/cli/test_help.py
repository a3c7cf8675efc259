"""The help of every command has examples that parse and shows what a flag accepts; the shell completes both."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from faudit.cli.main import COMMANDS, main, parsed, parser
from faudit.data import DATASETS
from faudit.nets import NETS
from faudit.optimizers import OPTIMIZERS
from faudit.rules import RULES

LISTED = {
    "--net": list(NETS), "--rule": [name for name in RULES if name not in RULES.controls], "--data": list(DATASETS),
    "--optimizer": list(OPTIMIZERS), "--dtype": ["float32", "float64"], "--schedule": ["cosine", "step"],
}  # fmt: skip


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_that_parse(capsys: pytest.CaptureFixture[str], command: str) -> None:
    lines = help_of(capsys, command).split("\nexamples:\n")[1].splitlines()
    assert lines == [f"  {example}" for example in COMMANDS[command].EXAMPLES] and 1 <= len(lines) <= 4
    for line in lines:
        first, *words = shlex.split(line.split(" > ")[0])
        assert first == "faudit" and parsed(parser(), words).command == command


@pytest.mark.parametrize("flag", LISTED)
def test_the_help_of_train_lists_what_a_flag_accepts(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    text = help_of(capsys, "train").split("\noptions:\n")[1]
    own = text.split(f"\n  {flag} ")[1].split("\n  --")[0]
    words = own.replace(",", " ").replace("(", " ").split()
    assert set(LISTED[flag]) <= set(words)


def test_the_help_of_train_needs_no_torch() -> None:
    program = "import sys; from faudit.cli.main import main; main(['train', '--help']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_walk_back_is_explained_where_it_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(help_of(capsys, "audit").split())
    assert "needs walk-back: at least one check fired, so take back the conclusions that rest on this run" in text
