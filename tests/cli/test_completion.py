"""Each shell completes commands, flags, names and runs with the script that ``faudit completion`` prints."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faudit.cli.completion import SHELLS, script
from faudit.cli.main import main

LINES = {
    "faudit tr": ["train"],
    "faudit train --rule df": ["dfa", "dfa-layers"],
    "faudit train --rule frozen-df": ["frozen-dfa", "frozen-dfa-layers"],
    "faudit train --dtype f": ["float32", "float64"],
    "faudit train --net res": ["resmlp", "resnet"],
    "faudit audit --with-c": ["--with-controls"],
    "faudit audit dfa": ["dfa-run"],
    "faudit audit dfa-run bp": ["bp-run"],
    "faudit show df": ["dfa-run"],
    "faudit list pap": ["papers"],
    "faudit show --runs ru": ["runs"],
}
# Reports every word that zsh could complete with: ``compadd`` is what each of its completions ends in.
ZSHRC = r"""
fpath=($ZDOTDIR $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {
    local -a hits
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || { builtin compadd -O hits "$@"; print -rl -- $hits >> found }
    builtin compadd "$@"
}
PS1=READY
"""
CLEAR_LINE = "\x15"


def bash(folder: Path, line: str) -> list[str]:
    """What bash completes a line with."""
    asked = f"""
        source ./faudit.bash
        COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        words=($(complete -p faudit)); place=0
        for word in "${{words[@]}}"; do [ "$word" = -F ] && name=${{words[place + 1]}}; place=$((place + 1)); done
        "$name" faudit "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", asked], cwd=folder, capture_output=True, text=True, timeout=30)
    return done.stdout.split()


def fish(folder: Path, line: str) -> list[str]:
    """What fish completes a line with."""
    asked = ["fish", "--no-config", "-c", f"source faudit.fish; complete -C '{line}'"]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=60)
    return [found.split("\t")[0].rstrip("/") for found in done.stdout.splitlines()]


def zsh(folder: Path, line: str) -> list[str]:
    """What zsh completes a line with. Its completion needs a terminal and somebody who types."""
    shutil.copy(folder / "faudit.zsh", folder / "_faudit")
    (folder / ".zshrc").write_text(ZSHRC)
    ours, theirs = pty.openpty()
    settings = {**os.environ, "ZDOTDIR": str(folder), "TERM": "dumb"}
    shell = subprocess.Popen(["zsh", "-i"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    said = b""
    try:
        while b"READY" not in said:
            said += os.read(ours, 4096)
        os.write(ours, f"{line}\t{CLEAR_LINE}exit\n".encode())
        while os.read(ours, 4096):
            pass
    except OSError:  # the shell has closed the terminal
        pass
    finally:
        shell.wait(30)
        os.close(ours)
    found = folder / "found"
    return sorted(set(found.read_text().split())) if found.exists() else []


ASK: dict[str, Callable[[Path, str], list[str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    pytest.importorskip("shtab", reason="completion needs shtab")
    return {shell: script(shell) for shell in SHELLS}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_is_completed(tmp_path: Path, scripts: dict[str, str], shell: str, line: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for run in ("dfa-run", "bp-run"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    (tmp_path / f"faudit.{shell}").write_text(scripts[shell])
    assert sorted(ASK[shell](tmp_path, line)) == LINES[line]


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
