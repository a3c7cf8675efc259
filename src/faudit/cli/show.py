"""``faudit show``: show the runs of a store, or one run in full."""

from __future__ import annotations

import argparse
import json
from typing import Any

from faudit.cli.flags import Parser, add_json, add_runs, add_where
from faudit.cli.output import complain, print_json, say
from faudit.errors import ConfigError

HELP = "show all runs as a table, one run with all its rows, or the method card of a rule (`show rule NAME`)"


def add_flags(own: Parser) -> None:
    own.add_argument("name", nargs="?", metavar="RUN", help="a run's directory, or its name in the store; or `rule`")
    own.add_argument("member", nargs="?", metavar="NAME", help="after `rule`: the name of a rule")
    add_runs(own)
    add_json(own)
    add_where(own)


def as_json(entry: dict[str, Any]) -> str:
    """An overview as one line of JSON. orjson is much faster; only ``json`` can write a path that is not UTF-8."""
    import orjson

    rest = orjson.dumps({name: value for name, value in entry.items() if name != "run"}).decode()
    return f'{{"run":{json.dumps(entry["run"])},{rest[1:]}'


def run(args: argparse.Namespace) -> int:
    from faudit.cli.tables import run_table, runs_table, settings_line
    from faudit.store.index import conditions, entries, matches
    from faudit.store.rows import to_line
    from faudit.store.run import run_named
    from faudit.store.summary import overview

    if args.member:
        return card(args)
    if args.name and args.where:
        raise ConfigError(f"--where selects runs of a store: expected no RUN with it, got {args.name!r}")
    if args.name:
        chosen = run_named(args.name, args.runs)
        entry = overview(chosen)  # raises if the run is damaged
        if args.json:
            print_json({**entry, "rows": [json.loads(to_line(row)) for row in chosen.rows()]})
        else:
            say(run_table(chosen), settings_line(chosen))
        return 0
    found, damaged = entries(args.runs)
    wanted = conditions(args.where, found)
    found = [entry for entry in found if matches(entry, wanted)]
    if args.json:
        print("[" + ",\n".join(map(as_json, found)) + "]")
    else:
        say(runs_table(found))
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
