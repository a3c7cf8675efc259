"""The verbs that look at a store of runs and compute nothing: ``show``, and ``export`` of all rows as one table."""

from __future__ import annotations

import argparse
import json
import sys

from faudit.errors import ConfigError
from faudit.verbs import print_json, run_export, run_named, say


def run_show(args: argparse.Namespace) -> int:
    import orjson

    from faudit.index import conditions, entries, matches
    from faudit.rows import to_line
    from faudit.tables import overview, run_table, runs_table, settings_line

    wanted = conditions(args.where)
    if args.name:
        run = run_named(args.name, args.runs)
        if args.json:
            print_json({**overview(run), "rows": [json.loads(to_line(row)) for row in run.rows()]})
        else:
            say(run_table(run), settings_line(run))
        return 0
    found, damaged = entries(args.runs)
    found = [entry for entry in found if matches(entry, wanted)]
    if args.json:
        print("[" + ",\n".join(orjson.dumps(entry).decode() for entry in found) + "]")
    else:
        say(runs_table(found))
    for problem in damaged:
        print(f"faudit: {problem}", file=sys.stderr)
    return 2 if damaged else 0


def run_export_as(args: argparse.Namespace) -> int:
    """``export``: the study's files, or with ``--format`` every row of every run in one file."""
    if args.format == "study":
        if args.where:
            raise ConfigError("--where: expected with --format csv or parquet, got it without. Add --format csv.")
        return run_export(args)
    from faudit.flat import export
    from faudit.index import conditions

    count, damaged = export(args.runs, args.out, form=args.format, wanted=conditions(args.where))
    for problem in damaged:
        print(f"faudit: {problem}", file=sys.stderr)
    print(args.out)
    print(f"{count} rows", file=sys.stderr)
    return 2 if damaged else 0
