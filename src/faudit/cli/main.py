"""The command line: the commands, and what becomes of an error. ``exit_codes.py`` lists the exit codes.

Results go to stdout; progress and problems go to stderr. Only the commands that compute import torch.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from faudit import __version__
from faudit.cli import (
    audit,
    bench,
    compare,
    completion,
    data,
    demo,
    export,
    figure,
    import_,
    plot,
    report,
    reproduce,
    serve,
    show,
    sweep,
    train,
)
from faudit.cli import list as list_
from faudit.cli.exit_codes import BUG, CLOSED_PIPE, ERROR, FOREIGN_EXIT, INTERRUPTED, NO_OUTPUT
from faudit.cli.flags import Parser, examples
from faudit.cli.output import Unwritten, complain, prepare_streams, silence_stdout
from faudit.cli.progress import SLOW, counting
from faudit.errors import OUT_OF_MEMORY, ConfigError, FauditError, is_out_of_memory
from faudit.registry import unknown
from faudit.store.counts import telling

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "show": show,
    "sweep": sweep,
    "list": list_,
    "data": data,
    "demo": demo,
    "audit": audit,
    "figure": figure,
    "plot": plot,
    "compare": compare,
    "reproduce": reproduce,
    "export": export,
    "import": import_,
    "report": report,
    "serve": serve,
    "bench": bench,
    "completion": completion,
}
MAKE_RUNS = ("train", "sweep", "reproduce", "demo")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    prepare_streams()
    try:
        code = answered(argv)
        sys.stdout.flush()  # here, where a failure can still be answered
    except Unwritten as error:
        silence_stdout()
        if error.reader_left:
            return CLOSED_PIPE
        complain([f"the result cannot be written to standard output: {error}. Send it somewhere else."])
        return NO_OUTPUT
    return code


def answered(argv: Sequence[str] | None) -> int:
    """Run one command. Every error becomes a message and an exit code, except a result that cannot be written."""
    args = argparse.Namespace()
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        args = parsed(parser(words[0] if words else "", words[1:]), words)
        with counting(args.command, after=SLOW) as tell, telling(None if makes_runs(args) else tell):
            return int(args.run(args))
    except FauditError as error:
        complain(str(error).splitlines())
        return ERROR
    except KeyboardInterrupt:
        goes_on = " The same command goes on from the last checkpoint." if makes_runs(args) else ""
        print(f"\nfaudit: interrupted.{goes_on}", file=sys.stderr)  # after the terminal's ^C
        return INTERRUPTED
    except Unwritten:
        raise
    except SystemExit as error:
        if not hasattr(args, "run"):  # argparse itself, after --help or --version
            return 0
        complain([f"your code called sys.exit({error.code!r}) before faudit was done. Take that call out."])
        return FOREIGN_EXIT
    except BaseException as error:  # noqa: BLE001  # a bug: print the traceback and exit with its own code
        if is_out_of_memory(error):
            complain([OUT_OF_MEMORY])
            return ERROR
        traceback.print_exc()
        return BUG


def makes_runs(args: argparse.Namespace) -> bool:
    """Whether a command trains runs, which can resume after an interrupt."""
    return getattr(args, "command", "") in MAKE_RUNS or bool(getattr(args, "with_controls", False))


def parser(command: str | None = None, words: Sequence[str] = ()) -> Parser:
    """The parser of the command line; if a command is given, only that one gets its flags, which saves time.

    An own net, rule or optimizer among the ``words`` adds the flags of its settings to ``train``.
    """
    top = Parser(
        prog="faudit",
        description="Train with backprop and its alternatives; measure whether the credit signal still means anything.",
        epilog="Exit codes: 0 done or trustworthy, 1 needs walk-back or diverged, 2 an error told in one line, "
        "3 inconclusive, 70 a bug, 71 your code called sys.exit, 74 stdout cannot be written, 130 interrupted, "
        "141 the reader of stdout left.",
    )
    top.add_argument("--version", action="version", version=f"faudit {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name, module in COMMANDS.items():
        # The help of train depends on the chosen net, rule and optimizer, so train has its own --help.
        own = commands.add_parser(name, help=module.HELP, add_help=module is not train)
        own.set_defaults(run=module.run, own=own)
        if command in (None, name):
            own.description, own.epilog = getattr(module, "ABOUT", module.HELP), examples(module)
            module.add_flags(own)
            if module is train:
                train.add_own_flags(own, words)
    return top


def parsed(top: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. The error for an unknown command or flag names the nearest valid one."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise ConfigError(unknown("command", words[0], list(COMMANDS)))
    args, rest = top.parse_known_args(words)
    if rest:
        odd = [word for word in rest if word.startswith("-")] or rest  # an unknown flag's value is no second problem
        flags = [flag for action in args.own._actions for flag in action.option_strings if flag.startswith("--")]
        told = [unknown("flag" if word.startswith("-") else "argument", word, flags) for word in odd]
        raise ConfigError("\n".join(told))
    return args
