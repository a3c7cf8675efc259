"""``faudit export``: the runs as the paper's result files, or every row of every run as one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faudit.cli.flags import Parser, add_plan, add_where, plan_of
from faudit.cli.output import complain, refuse_stdout, remark
from faudit.errors import ConfigError, StoreError
from faudit.papers.faeval.experiments import Plan
from faudit.store.files import STDOUT

HELP = "write the runs as the paper's result files, or as one table"


def add_flags(own: Parser) -> None:
    own.add_argument(
        "--out", type=Path, required=True, metavar="PATH", help="for `results`, or the table's file (- is stdout)"
    )
    own.add_argument(
        "--format", choices=["study", "csv", "parquet"], default="study", metavar="study|csv|parquet",
        help="the study's files (default), or every row of every run in one table",
    )  # fmt: skip
    add_where(own)
    add_plan(own)


def run(args: argparse.Namespace) -> int:
    if args.format != "study":
        return export_table(args)
    if args.where:
        raise ConfigError("--where: expected with --format csv or parquet, got it without. Add --format csv.")
    return export_files(args)


def export_files(args: argparse.Namespace) -> int:
    from faudit.figures.table import Table
    from faudit.papers.faeval.files import export

    refuse_stdout("--out", args.out, "a directory for the study's files")
    if args.data is None or args.epochs is None:
        found = recipe_of(args.runs)
        args.data, args.epochs = args.data or found[0], args.epochs or found[1]
    table = Table(plan_of(args), args.runs)
    paths = export(table, args.out)
    remark(table.remarks)
    for path in paths:
        print(path)
    if not paths:
        raise StoreError(f"{args.runs} holds no run of the study with these seeds: nothing was exported")
    return 0


def recipe_of(runs: Path) -> tuple[str, int | None]:
    """The dataset and the number of epochs of the runs in a store: those that all share, or else the paper's."""
    from faudit.store.run import runs_in

    configs = []
    for run in runs_in(runs):
        try:
            configs.append(run.config())
        except StoreError:  # the table tells of it when it is read
            continue
    data = {config.data for config in configs} - {"teacher"}
    epochs = {config.epochs for config in configs}
    return data.pop() if len(data) == 1 else Plan().data, epochs.pop() if len(epochs) == 1 else None


def export_table(args: argparse.Namespace) -> int:
    from faudit.store.index import conditions
    from faudit.store.table import export

    for flag in ("data", "epochs", "seeds"):
        if getattr(args, flag) not in (None, Plan.seeds):  # its default is a tuple, what was given a list
            raise ConfigError(f"--{flag}: expected with --format study, got --format {args.format}. Use --where there.")

    count, damaged = export(args.runs, args.out, form=args.format, wanted=conditions(args.where))
    complain(damaged)
    if args.out != STDOUT:
        print(args.out)
    print(f"{count} rows", file=sys.stderr)
    return 2 if damaged else 0
