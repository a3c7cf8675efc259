"""``faudit compare``: compare two groups of runs, paired by seed."""

from __future__ import annotations

import argparse

from faudit.cli.flags import Parser, add_json, add_runs, add_where, count
from faudit.cli.output import complain, print_json, remark
from faudit.errors import ConfigError

HELP = "compare two groups of runs, paired by seed: difference, interval, tests, effect size"
EXAMPLES = (
    "faudit compare rule=bp rule=dfa,penalty=0",
    "faudit compare rule=dfa,penalty=0 rule=dfa,penalty=0.01 --entry gamma --over deep --latex",
)


def add_flags(own: Parser) -> None:
    group = "conditions or names of runs, with commas between them: rule=dfa,penalty=0.01"
    own.add_argument("a", metavar="A", help=f"the first group: {group}")
    own.add_argument("b", metavar="B", help="the second group, in the same form")
    own.add_argument(
        "--entry", nargs="+", default=["test_acc"], metavar="ENTRY", help="what to compare (default: test_acc)"
    )
    layers = own.add_mutually_exclusive_group()
    layers.add_argument("--layer", type=int, metavar="L", help="the tap, block or part of an entry that has several")
    layers.add_argument("--over", metavar="HOW", help="combine them instead: mean, max, last or deep")
    own.add_argument("--at", type=count, metavar="EPOCH", help="the epoch (default: the end)")
    add_where(own)
    add_runs(own)
    add_json(own)
    own.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    own.add_argument("--latex", action="store_true", help="print the table in LaTeX (booktabs)")


def run(args: argparse.Namespace) -> int:
    from faudit.analysis.compare import compare
    from faudit.analysis.runs import runs

    if args.json + args.markdown + args.latex > 1:
        raise ConfigError("expected one of --json, --markdown and --latex, got several")
    found = runs(args.runs).where(*args.where)
    a, b = (found.where(*words(text)) for text in (args.a, args.b))
    result = compare(a, b, *args.entry, layer=args.layer, over=args.over, at=args.at, names=(args.a, args.b))
    if args.json:
        print_json(result.to_json())
    else:
        print(result.markdown() if args.markdown else result.latex() if args.latex else result)
    remark(result.remarks)
    complain(found.problems)
    return 0


def words(text: str) -> list[str]:
    """The conditions and names of a group."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise ConfigError(f"expected a group such as rule=dfa, got {text!r}")
    return found
