"""``faudit reproduce``: the runs that a figure or the claims need, then the figures and the claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faudit.cli.flags import Parser, add_data_dir, add_plan, add_venue, count, plan_of
from faudit.cli.output import complain, refuse_stdout, remark
from faudit.figures import FIGURES

HELP = "make the runs that a figure or the claims need, then the figures and the claims"


def add_flags(own: Parser) -> None:
    own.add_argument("name", metavar="NAME", help=f"{', '.join(FIGURES)}, claims or all")
    own.add_argument("--out", type=Path, default=Path("study"), metavar="DIR", help="for the results (default: study)")
    add_data_dir(own)
    own.add_argument(
        "--jobs", type=count, default=None, metavar="N",
        help="runs side by side (default: one per core); 0 makes none and draws what is there",
    )  # fmt: skip
    add_plan(own)
    add_venue(own)


def run(args: argparse.Namespace) -> int:
    from faudit.papers.reproduce import reproduce
    from faudit.sweep.engine import cores

    refuse_stdout("--out", args.out, "a directory")
    jobs = cores() if args.jobs is None else args.jobs
    result = reproduce(
        args.name, plan_of(args), runs=args.runs, out=args.out, data_dir=args.data_dir, jobs=jobs, venue=args.venue
    )
    remark([*(f"{run}: {reason}" for run, reason in result.failed.items()), *result.remarks])
    problems = [*(f"{run} was not made: {reason}" for run, reason in result.left.items()), *result.problems]
    complain(problems)
    if not (problems or result.made or result.drawn):
        print(f"nothing to do: every run is finished and {args.out} holds what they give")
        return 0
    for path in result.files:
        print(path)
    told = ", ".join(f"{count} {verdict}" for verdict, count in result.verdicts.items())
    print(f"{result.made} runs made" + (f"; claims: {told}" if told else ""), file=sys.stderr)
    return 2 if problems else 0
