"""The parser, and the flags that several commands share."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from faudit.data import DATASETS
from faudit.errors import ConfigError
from faudit.registry import unknown
from faudit.settings import whole
from faudit.sweep.trackers import TRACKERS

if TYPE_CHECKING:
    from faudit.figures.plan import Plan, Recipe
    from faudit.papers.paper import Paper


class Help(argparse.HelpFormatter):
    """Help that breaks no name at its hyphen and keeps indented lines whole, so that both can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else super(Help, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


class Parser(argparse.ArgumentParser):
    """argparse that raises ``ConfigError`` and does not accept abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=Help, **options)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See `{self.prog} --help`.")


def examples(command: ModuleType) -> str:
    """The examples of a command's module, as its help ends with them."""
    return "\n".join(["examples:", *(f"  {line}" for line in getattr(command, "EXAMPLES", ()))])


def count(text: str) -> int:
    """Parse a whole number ≥ 0 from the command line."""
    try:
        return int(whole(0, 2**63 - 1)(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {error}, got {text!r}") from None


def add_runs(own: Parser) -> None:
    """``--runs``: the run store."""
    own.add_argument(
        "--runs",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="run store: the folder of the runs (default: runs)",
    )


def add_json(own: Parser) -> None:
    """``--json``: print the result as JSON."""
    own.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_data_dir(own: Parser) -> None:
    """``--data-dir``: the folder of the datasets."""
    own.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the dataset's files")


def add_where(own: Parser) -> None:
    """``--where``: select runs of a store."""
    own.add_argument(
        "--where", action="append", default=[], metavar="CONDITION",
        help="only runs with this setting, status or result (rule=dfa, epochs>=30, test_acc>0.9), or of this name; "
        "with several, all keys must match, each with one of its values",
    )  # fmt: skip


def add_plan(own: Parser) -> None:
    """The flags that select the runs of a paper. The defaults are the paper's own."""
    add_runs(own)
    own.add_argument("--data", metavar="NAME", help="dataset of the runs (default: the paper's)")
    own.add_argument("--epochs", type=count, metavar="N", help="epochs of every run (default: as in the paper)")
    own.add_argument("--seeds", type=count, nargs="+", metavar="S", help="seeds of the runs (default: the paper's)")


def add_venue(own: Parser) -> None:
    """``--venue``: the page width of figures."""
    own.add_argument("--venue", default="neurips", help="page width: neurips, icml or iclr (default: neurips)")


def add_trackers(own: Parser) -> None:
    """One flag for each tracker: the folder that it writes."""
    group = own.add_argument_group("trackers, which use no network")
    for name in TRACKERS:
        group.add_argument(f"--{name}", type=Path, metavar="DIR", help=TRACKERS.summary(name).rstrip("."))


def trackers_of(args: argparse.Namespace) -> dict[str, Path]:
    """The trackers that were asked for, with their folders."""
    return {name: folder for name in TRACKERS if (folder := getattr(args, name)) is not None}


def plan_of(args: argparse.Namespace, paper: Paper | Recipe) -> Plan:
    """The plan of a paper or recipe with the flags of ``add_plan``."""
    if args.epochs == 0:
        raise ConfigError("--epochs: expected at least 1, got 0")
    if args.data is not None and args.data not in DATASETS:
        raise ConfigError(unknown("dataset", args.data, list(DATASETS)))
    seeds = None if args.seeds is None else tuple(dict.fromkeys(args.seeds))
    return paper.plan(args.data, epochs=args.epochs, seeds=seeds)
