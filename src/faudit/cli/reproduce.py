"""``faudit reproduce``: train the runs that a paper or a part of it needs, then make its figures and claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.cli.flags import Parser, add_data_dir, add_plan, add_venue, count, plan_of
from faudit.cli.output import complain, refuse_stdout, remark
from faudit.cli.progress import counting
from faudit.cli.sweep import forecast
from faudit.figures import FIGURES, OF_STUDIES
from faudit.papers import PAPERS

if TYPE_CHECKING:
    from faudit.papers.reproduce import Result

HELP = "train the missing runs of a paper, draw its figures, and compare its claims with the logs"
EXAMPLES = (
    "faudit reproduce faeval --data digits --epochs 2",
    "faudit reproduce all --dry-run",
)


def add_flags(own: Parser) -> None:
    figures = ", ".join(name for name in FIGURES if name not in OF_STUDIES)
    own.add_argument(
        "name", metavar="NAME",
        help=f"a paper ({', '.join(PAPERS)}), a figure ({figures}), claims, or all (every paper)",
    )  # fmt: skip
    own.add_argument(
        "--out", type=Path, metavar="DIR",
        help="folder for the results, with a subfolder for each of several papers (default: the paper's name)",
    )  # fmt: skip
    add_data_dir(own)
    own.add_argument(
        "--jobs", type=count, default=None, metavar="N",
        help="runs side by side; 0 trains none and draws the runs that exist (default: one per core)",
    )  # fmt: skip
    own.add_argument(
        "--dry-run", action="store_true", help="train and draw nothing; list the runs with their state and their time"
    )
    add_plan(own)
    add_venue(own)


def run(args: argparse.Namespace) -> int:
    from faudit.papers.reproduce import configs_of, papers_of, reproduce
    from faudit.sweep.engine import cores

    refuse_stdout("--out", args.out, "a directory")
    jobs = cores() if args.jobs is None else args.jobs
    plans = [(paper, plan_of(args, paper)) for paper in papers_of(args.name)]
    if args.dry_run:
        configs = [config for paper, plan in plans for config in configs_of(args.name, paper, plan=plan)]
        return forecast(list(dict.fromkeys(configs)), runs=args.runs, jobs=args.jobs)
    codes, absent = [], []
    for paper, plan in plans:
        out = Path(paper.name) if args.out is None else args.out / paper.name if len(plans) > 1 else args.out
        with counting(f"reproduce {paper.name}") as progress:
            result = reproduce(
                args.name, paper, plan=plan, runs=args.runs, out=out, data_dir=args.data_dir, jobs=jobs,
                venue=args.venue, progress=progress,
            )  # fmt: skip
        if result.absent:
            absent.append(result.absent)
        if not result.absent or result.left:
            codes.append(tell(result, out, is_rehearsal=not plan.is_full))
    if len(absent) == len(plans):
        complain(absent)
        return 2
    remark(absent)  # of several papers, some may have no runs in the store
    return max(codes)


def tell(result: Result, out: Path, *, is_rehearsal: bool) -> int:
    """Print what was made of one paper and return the exit code."""
    remark([*(f"{run}: {reason}" for run, reason in result.failed.items()), *result.remarks])
    problems = [*(f"{run} was not made: {reason}" for run, reason in result.left.items()), *result.problems]
    complain(problems)
    if not (problems or result.made or result.drawn):
        print(f"nothing to do: every run is finished and {out} holds what they give")
        return 0
    for path in result.files:
        print(path)
    told = ", ".join(f"{count} {verdict}" for verdict, count in result.verdicts.items())
    if told and is_rehearsal:
        told = f"{sum(result.verdicts.values())} rehearsed, which says nothing about them"
    print(f"{result.made} runs made" + (f"; claims: {told}" if told else ""), file=sys.stderr)
    return 2 if problems else 0
