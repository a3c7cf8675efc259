"""``faudit import``: read a paper's result files as runs that are marked as imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from faudit.cli.flags import Parser, add_runs
from faudit.cli.output import complain
from faudit.papers import PAPERS

HELP = "read a paper's result files as runs that are marked as imported"
EXAMPLES = ("faudit import results/*.json --runs runs",)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="JSON files of the paper, or of `faudit export`"
    )
    own.add_argument(
        "--format", choices=list(PAPERS), default="faeval", metavar="|".join(PAPERS),
        help="the paper that the files belong to (default: faeval)",
    )  # fmt: skip
    add_runs(own)


def run(args: argparse.Namespace) -> int:
    from faudit.papers.paper import files_of

    runs, problems = files_of(PAPERS[args.format]).import_files(args.files, args.runs)
    for run in runs:
        print(run.path)
    complain(problems)
    return 2 if problems else 0
