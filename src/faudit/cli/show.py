"""``faudit show``: show the runs of a store, the seeds of each method together, or one run in full."""

from __future__ import annotations

import argparse
import json
from typing import Any

from faudit.cli.flags import Parser, add_json, add_runs, add_where
from faudit.cli.output import complain, print_json, say, width
from faudit.errors import ConfigError

HELP = "show all runs as a table, one run with all its rows, or the method card of a rule (`show rule NAME`)"
EXAMPLES = (
    "faudit show --where rule=dfa",
    "faudit show resmlp-dfa-digits-s42-4b3b10dc95",
    "faudit show rule dfa",
)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "name", nargs="?", metavar="RUN",
        help="a run's directory, or its name in the store, or a prefix or pattern of names; or `rule`",
    )  # fmt: skip
    own.add_argument("member", nargs="?", metavar="NAME", help="after `rule`: the name of a rule")
    add_runs(own)
    add_json(own)
    add_where(own)
    own.add_argument("--group", action="store_true", help="one line per method: mean ± s.d. over its finished seeds")
    own.add_argument(
        "--sort", metavar="KEY", help="sort by a setting, a result such as test_acc or growth, status or run"
    )
    own.add_argument("--descending", action="store_true", help="with --sort: the largest first")
    own.add_argument("--latex", action="store_true", help="print the table in LaTeX (booktabs)")


def as_json(entry: dict[str, Any]) -> str:
    """An overview as one line of JSON. orjson is much faster; only ``json`` can write a path that is not UTF-8."""
    import orjson

    rest = orjson.dumps({name: value for name, value in entry.items() if name != "run"}).decode()
    return f'{{"run":{json.dumps(entry["run"])},{rest[1:]}'


def run(args: argparse.Namespace) -> int:
    from faudit.store.run import PATTERN, run_named, runs_named

    if args.member:
        return card(args)
    if args.json and (args.latex or args.group):
        other = "--latex" if args.latex else "--group"
        raise ConfigError(f"--json: expected without {other}, got both. --json lists every run in full.")
    if args.descending and not args.sort:
        raise ConfigError("--descending: expected with --sort KEY, got it without")
    if args.name and args.where:
        raise ConfigError(f"--where selects runs of a store: expected no RUN with it, got {args.name!r}")
    if not args.name:
        return show_many(args)
    named = runs_named(args.name, args.runs)
    if len(named) == 1 or not any(letter in args.name for letter in PATTERN):
        return show_one(args, run_named(args.name, args.runs))
    return show_many(args, {run.name for run in named})


def show_one(args: argparse.Namespace, chosen: Any) -> int:
    """Show one run with all its rows."""
    from faudit.cli.tables import run_table, settings_line
    from faudit.store.rows import to_line
    from faudit.store.summary import overview

    for flag in ("group", "sort", "latex"):
        if getattr(args, flag):
            raise ConfigError(f"--{flag} is for a list of runs: expected no RUN with it, got {args.name!r}")
    entry = overview(chosen)  # raises if the run is damaged
    if args.json:
        print_json({**entry, "rows": [json.loads(to_line(row)) for row in chosen.rows()]})
    else:
        print(chosen.name)
        say(run_table(chosen, width=width()), settings_line(chosen))
    return 0


def show_many(args: argparse.Namespace, names: set[str] | None = None) -> int:
    """Show the runs of a store that are asked for."""
    from faudit.cli.tables import LEFT, by_method, group_table, paper_lines, runs_table
    from faudit.latex import tabular
    from faudit.store.index import entries
    from faudit.store.where import chosen, named, ordered

    found, damaged = entries(args.runs)
    found = chosen(found, args.where, store=str(args.runs))
    found = [entry for entry in found if names is None or named(entry) in names]
    if args.sort:
        found = ordered(found, args.sort, largest_first=args.descending)
    elif args.group:
        found = by_method(found)
    if args.json:
        print("[" + ",\n".join(map(as_json, found)) + "]")
    elif args.latex:
        lines, same = paper_lines(found, by_method=args.group)
        print(tabular(lines, columns="".join("l" if name in LEFT else "r" for name in lines[0]), caption=same))
    else:
        say((group_table if args.group else runs_table)(found, width=width()))
    complain(damaged)
    return 2 if damaged else 0


def card(args: argparse.Namespace) -> int:
    """Show the method card of a rule."""
    from faudit.rules import cards

    if args.name != "rule":
        raise ConfigError(f"show: expected one RUN, or `rule NAME`, got {args.name!r} and {args.member!r}")
    if args.json:
        print_json(cards.card(args.member))
    else:
        print(cards.text(args.member))
    return 0
