"""``faudit figure``: draw one figure from the runs of a store."""

from __future__ import annotations

import argparse
from pathlib import Path

from faudit.cli.flags import Parser, add_plan, add_venue, plan_of
from faudit.cli.output import refuse_stdout, remark
from faudit.figures import FIGURES

HELP = "draw one figure from the runs of a store, or list the runs that are missing"
EXAMPLES = (
    "faudit figure penalty-sweep --out penalty.pdf --venue icml",
    "faudit figure snapshot-resmlp --data digits --epochs 30 --seeds 42 --out snapshot.png",
)


def add_flags(own: Parser) -> None:
    own.add_argument("name", metavar="NAME", help=f"the figure: {', '.join(FIGURES)}")
    own.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .pdf, .svg or .png file; its numbers go into a .json file beside it",
    )
    own.add_argument("--partial", action="store_true", help="draw the figure even if runs are missing")
    add_plan(own)
    add_venue(own)


def run(args: argparse.Namespace) -> int:
    from faudit.figures.figure import make, suffix
    from faudit.figures.style import Style
    from faudit.figures.table import Table
    from faudit.papers.paper import recipe_with

    refuse_stdout("--out", args.out, "a picture's file, whose numbers go beside it")
    figure, style = FIGURES[args.name](), Style(args.venue)
    suffix(args.out)
    table = Table(plan_of(args, recipe_with(args.name)), args.runs, partial=args.partial)
    remark(make(args.name, figure, table, style=style, paths=[args.out]))
    print(args.out)
    return 0
