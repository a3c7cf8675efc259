"""``faudit completion``: print a script that completes commands, flags and names in bash, zsh or fish.

The script is static: pressing Tab starts no Python, which would take half a second. It is written by ``shtab`` from the
parser itself, so it knows every flag. Names of rules, networks and datasets are in it; runs are looked up in ``runs``.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from faudit.cli.flags import Parser
from faudit.config import known
from faudit.errors import ConfigError

HELP = "print a script that completes faudit's commands, flags and names in your shell"
ABOUT = f"{HELP}; needs `pip install 'faudit[completion]'`"
EXAMPLES = (
    "faudit completion bash > ~/.local/share/bash-completion/completions/faudit",
    "faudit completion zsh > ~/.zfunc/_faudit",
    "faudit completion fish > ~/.config/fish/completions/faudit.fish",
)
SHELLS = ("bash", "zsh", "fish")
# Completes the names of the runs in the default store: the functions, and what calls them.
FUNCTIONS = {
    "bash": '_faudit_runs() { compgen -W "$(command ls runs 2>/dev/null)" -- "$1"; }',
    "zsh": '_faudit_runs() { compadd "$@" -- runs/*(N/:t); }',
}
RUNS = {"bash": "_faudit_runs", "zsh": "_faudit_runs", "fish": "(command ls runs 2>/dev/null)"}


def add_flags(own: Parser) -> None:
    own.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell that will read the script")


def run(args: argparse.Namespace) -> int:
    print(script(args.shell))
    return 0


def script(shell: str) -> str:
    """The completion script of a shell."""
    try:
        import shtab
    except ImportError:
        raise ConfigError(
            "completion needs the package shtab, which is not installed. "
            "Install it with `pip install 'faudit[completion]'`."
        ) from None
    from faudit.cli.main import COMMANDS, parser

    top = parser()
    for name, own in commands(top).items():
        own.description = COMMANDS[name].HELP  # shorter than the text of its help
        for action in own._actions:
            prepare(action, folders=shtab.DIRECTORY, files=shtab.FILE)
    text: str = shtab.complete(top, shell=shell, preamble=FUNCTIONS)
    # shtab's zsh script completes the first of several arguments alone; "*:" completes all of them.
    return re.sub(r'^  "\(\*\)::?', '  "*:', text, flags=re.MULTILINE) if shell == "zsh" else text


def commands(top: Parser) -> dict[str, Parser]:
    """The parser of each command."""
    (choice,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    return dict(choice.choices)


def prepare(action: argparse.Action, *, folders: object, files: object) -> None:
    """Give an argument what it can be completed with: the names that it accepts, runs, folders or files."""
    from faudit.cli.train import choices

    if action.option_strings and action.dest in known() and action.choices is None and action.nargs != 0:
        action.choices = choices(action.dest, known()[action.dest].first) or None
    if action.metavar == "RUN":
        action.complete = RUNS  # type: ignore[attr-defined]  # shtab reads it
    elif action.type is Path:
        action.complete = folders if action.metavar == "DIR" else files  # type: ignore[attr-defined]
