"""The help of every command has examples that parse and shows what a flag accepts; the shell completes both."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from faudit.cli.completion import SHELLS, script
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


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("faudit tr", ["train"]),
        ("faudit train --rule df", ["dfa", "dfa-layers"]),
        ("faudit train --rule frozen-df", ["frozen-dfa", "frozen-dfa-layers"]),
        ("faudit train --dtype f", ["float32", "float64"]),
        ("faudit train --net res", ["resmlp", "resnet"]),
        ("faudit audit --with-c", ["--with-controls"]),
        ("faudit audit dfa", ["dfa-run"]),
        ("faudit list pap", ["papers"]),
        ("faudit show --runs ru", ["runs"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: str, found: list[str]) -> None:
    pytest.importorskip("shtab")
    (tmp_path / "runs" / "dfa-run").mkdir(parents=True)
    (tmp_path / "script").write_text(script("bash"))
    asked = f"""
        source ./script
        COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        words=($(complete -p faudit)); place=0
        for word in "${{words[@]}}"; do [ "$word" = -F ] && name=${{words[place + 1]}}; place=$((place + 1)); done
        "$name" faudit "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert sorted(done.stdout.split()) == found, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "kolen-pollack" in text and "with-controls" in text


def test_without_shtab_it_is_said_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    err = capsys.readouterr().err
    assert "pip install 'faudit[completion]'" in err and err.count("\n") == 1
