"""What each verb of the command line does: take the parsed arguments, call one function, print, return the exit code.

torch is imported by the verbs that compute and by no other.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.arms import Plan
from faudit.audit import CHECKS
from faudit.config import KEYS, RunConfig, attribute
from faudit.data import DATASETS
from faudit.errors import ConfigError, StoreError
from faudit.figures import FIGURES
from faudit.nets import NETS
from faudit.probes import PROBES
from faudit.registry import Registry, unknown
from faudit.rules import RULES
from faudit.sweep import STUDIES

if TYPE_CHECKING:
    from faudit.store import Run

FAMILIES: dict[str, Registry[Any]] = {
    "nets": NETS, "rules": RULES, "data": DATASETS, "probes": PROBES, "checks": CHECKS, "figures": FIGURES,
    "studies": STUDIES,
}  # fmt: skip


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=1, allow_nan=False))


def run_train(args: argparse.Namespace) -> int:
    given = {name: value for name in KEYS if (value := getattr(args, attribute(name))) is not None}
    config = RunConfig.from_toml(args.config, given) if args.config else RunConfig.parse(given, where="command line")

    from faudit.store import Run
    from faudit.tables import overview

    run = Run(args.runs / config.run_id)
    finish(config, run, data_dir=args.data_dir, title=config.rule)
    entry = overview(run)
    if args.json:
        print_json(entry)
    else:
        print(entry["run"])
    if entry["status"] == "failed":
        print(f"faudit: {entry['reason']} ({run.path}/failed.json); the rows so far are kept", file=sys.stderr)
        return 1
    return 0


def run_named(name: str, runs: Path) -> Run:
    """A run by its directory, or by its name in the store."""
    from faudit.store import Run, runs_in

    run = Run(Path(name) if (Path(name) / "config.json").exists() else runs / name)
    if run.status == "new":
        raise StoreError(unknown(f"run (in {runs})", name, [run.name for run in runs_in(runs)]))
    return run


def say(*things: Any) -> None:
    """Print tables and text on stdout as they are: never narrower than they need in a pipe, and a [ is a [."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 240)
    for thing in things:
        if isinstance(thing, str):
            print(thing)
        else:
            console.print(thing)


def run_list(args: argparse.Namespace) -> int:
    family = FAMILIES[args.family]
    entries = {name: family.summary(name) for name in family}
    if args.json:
        print_json(entries)
    else:
        for name, text in entries.items():
            print(f"{name:<{max(map(len, entries)) + 2}}{text}")
    return 0


def run_data(args: argparse.Namespace) -> int:
    if args.name not in DATASETS:
        raise ConfigError(unknown("dataset", args.name, list(DATASETS)))
    if args.action == "check":
        from faudit.data.check import check

        for line in check(args.name, args.data_dir):
            print(line)
        return 0
    from faudit.data.fetch import fetch
    from faudit.progress import downloads

    with downloads() as progress:
        paths = fetch(args.name, args.data_dir or Path("data"), url=args.url, progress=progress)
    for path in paths:
        print(path)
    if not paths:
        print(f"{args.name} ships with faudit: there is nothing to fetch", file=sys.stderr)
    return 0


def run_demo(args: argparse.Namespace) -> int:
    from faudit import demo
    from faudit.audit.judge import TRUSTWORTHY
    from faudit.store import Run
    from faudit.sweep.engine import cores
    from faudit.sweep.local import run_all
    from faudit.tables import overview, runs_table

    runs = demo.store(args.out)
    outcome = run_all(demo.RUNS, runs, data_dir=None, jobs=cores())
    if outcome.left:
        raise StoreError("\n".join(f"{run} was not made: {reason}" for run, reason in outcome.left.items()))
    named = [(demo.title(config), Run(runs / config.run_id)) for config in demo.RUNS]
    say(runs_table([{**overview(run), "run_id": title} for title, run in named]))
    print(f"runs: {runs}")
    verdicts = demo.verdicts(args.out)
    for name, (word, reason) in verdicts.items():
        print(f"{name:<{max(map(len, verdicts))}}  {word}" + (f": {reason}" if word != TRUSTWORTHY else ""))
    print(f"audit: {args.out / 'audit.md'}")
    for path in demo.draw(args.out):
        print(f"figure: {path} (also as PDF and SVG, its numbers as JSON)")
    return 0


def finish(config: RunConfig, run: Run, *, data_dir: Path | None, title: str) -> None:
    """Train what is left of a run; torch is not even imported for one that has ended."""
    if run.status in ("done", "failed"):
        run.must_hold(config)
        return
    from faudit.progress import shown
    from faudit.train import stream

    shown(stream(config, run, data_dir=data_dir), total=config.epochs, title=title)


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan that the flags describe."""
    if args.epochs == 0:
        raise ConfigError("--epochs: expected at least 1, got 0")
    data = args.data or Plan().data
    if data not in DATASETS:
        raise ConfigError(unknown("dataset", data, list(DATASETS)))
    return Plan(data, args.epochs, tuple(dict.fromkeys(args.seeds)))


def run_figure(args: argparse.Namespace) -> int:
    from faudit.figures.figure import make, suffix
    from faudit.figures.style import Style
    from faudit.figures.table import Table

    figure, style = FIGURES[args.name](), Style(args.venue)
    suffix(args.out)
    table = Table(plan_of(args), args.runs, partial=args.partial)
    remark(make(args.name, figure, table, style=style, paths=[args.out]))
    print(args.out)
    return 0


def run_reproduce(args: argparse.Namespace) -> int:
    from faudit.reproduce import reproduce
    from faudit.sweep.engine import cores

    jobs = cores() if args.jobs is None else args.jobs
    result = reproduce(
        args.name, plan_of(args), runs=args.runs, out=args.out, data_dir=args.data_dir, jobs=jobs, venue=args.venue
    )
    remark([*(f"{run}: {reason}" for run, reason in result.failed.items()), *result.remarks])
    problems = [*(f"{run} was not made: {reason}" for run, reason in result.left.items()), *result.problems]
    for problem in problems:
        print(f"faudit: {problem}", file=sys.stderr)
    if not (problems or result.made or result.drawn):
        print(f"nothing to do: every run is finished and {args.out} holds what they give")
        return 0
    for path in result.files:
        print(path)
    told = ", ".join(f"{count} {verdict}" for verdict, count in result.verdicts.items())
    print(f"{result.made} runs made" + (f"; claims: {told}" if told else ""), file=sys.stderr)
    return 2 if problems else 0


def run_export(args: argparse.Namespace) -> int:
    from faudit.exchange import export
    from faudit.figures.table import Table

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
    """The dataset and the number of epochs of the runs in a store: those that all share, or else the study's."""
    from faudit.store import runs_in

    configs = []
    for run in runs_in(runs):
        try:
            configs.append(run.config())
        except StoreError:  # told of when the table is read
            continue
    data = {config.data for config in configs} - {"teacher"}
    epochs = {config.epochs for config in configs}
    return data.pop() if len(data) == 1 else Plan().data, epochs.pop() if len(epochs) == 1 else None


def run_import(args: argparse.Namespace) -> int:
    from faudit.exchange import import_files

    runs, problems = import_files(args.files, args.runs)
    for run in runs:
        print(run.path)
    for problem in problems:
        print(f"faudit: {problem}", file=sys.stderr)
    return 2 if problems else 0


def remark(remarks: list[str]) -> None:
    """What a reader of a result must know."""
    for text in dict.fromkeys(remarks):
        print(f"faudit: note: {text}", file=sys.stderr)
