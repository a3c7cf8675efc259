"""``faudit export``: write the runs as a paper's result files, or every row of every run as one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.cli.flags import Parser, add_plan, add_where, plan_of
from faudit.cli.output import complain, refuse_stdout, remark
from faudit.cli.progress import counting
from faudit.errors import ConfigError, StoreError
from faudit.papers import PAPERS
from faudit.store.files import STDOUT

if TYPE_CHECKING:
    from faudit.papers.paper import Paper

HELP = "write the runs as a paper's result files, or as one table"
EXAMPLES = (
    "faudit export --format csv --where rule=dfa --out rows.csv",
    "faudit export --out results --data digits --epochs 30",
)
TABLES = ("csv", "parquet")
OF_PAPER = {"data": "data", "epochs": "epochs", "seeds": "seed"}  # flags of a paper's plan → settings of --where


def add_flags(own: Parser) -> None:
    formats = (*PAPERS, *TABLES)
    own.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="PATH",
        help="folder in which `results` is written, or the file of the table (- is stdout)",
    )
    own.add_argument(
        "--format", choices=formats, default="faeval", metavar="|".join(formats),
        help="faeval: the result files of that paper; csv, parquet: one table of all rows (default: faeval)",
    )  # fmt: skip
    add_where(own)
    add_plan(own)


def run(args: argparse.Namespace) -> int:
    if args.format in TABLES:
        if given := [name for name in OF_PAPER if getattr(args, name) is not None]:
            raise ConfigError(
                f"--{given[0]}: expected with a paper's files, got it with --format {args.format}. "
                f"Choose the runs of a table with --where {OF_PAPER[given[0]]}=VALUE."
            )
        return export_table(args)
    if args.where:
        raise ConfigError("--where: expected with --format csv or parquet, got it without. Add --format csv.")
    return export_files(args, PAPERS[args.format])


def export_files(args: argparse.Namespace, paper: Paper) -> int:
    from faudit.figures.table import Table
    from faudit.papers.paper import files_of

    refuse_stdout("--out", args.out, "a directory for the paper's files")
    files = files_of(paper)
    data, epochs = recipe_of(args.runs, paper)
    args.data = data if args.data is None else args.data
    args.epochs = epochs if args.epochs is None else args.epochs
    table = Table(plan_of(args, paper), args.runs)
    paths = files.export(table, args.out)
    remark(table.remarks)
    for path in paths:
        print(path)
    if not paths:
        hint = " Watched runs go into a table: --format csv." if table.watched else ""
        raise StoreError(f"{args.runs} holds no run of the paper with these seeds: nothing was exported.{hint}")
    return 0


def recipe_of(runs: Path, paper: Paper) -> tuple[str, int | None]:
    """The dataset and the epochs of the runs in a store if all runs share them, otherwise the paper's."""
    from faudit.store.run import runs_in
    from faudit.store.watched import WatchedConfig

    configs = []
    for run in runs_in(runs):
        try:
            configs.append(run.config())
        except StoreError:  # the table reports it later
            continue
    configs = [config for config in configs if not isinstance(config, WatchedConfig)]
    recipe = paper.recipe()
    besides = {config.data for config in recipe.experiments.values()} - {
        recipe.data
    }  # of experiments that never use the paper's dataset
    data = {config.data for config in configs} - besides
    epochs = {config.epochs for config in configs}
    return data.pop() if len(data) == 1 else recipe.data, epochs.pop() if len(epochs) == 1 else None


def export_table(args: argparse.Namespace) -> int:
    from faudit.store.table import export

    with counting("export") as tell:
        count, damaged = export(args.runs, args.out, form=args.format, where=args.where, progress=tell)
    complain(damaged)
    if args.out != STDOUT:
        print(args.out)
    print(f"{count} rows", file=sys.stderr)
    return 2 if damaged else 0
