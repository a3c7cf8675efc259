"""The verb that makes many runs: ``sweep``, and its ``--dry-run``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from faudit.config import RunConfig
from faudit.sweep import ENGINES
from faudit.verbs import remark, say

COLUMNS = ("run", "state", "epochs", "about")  # of a dry run


def run_sweep(args: argparse.Namespace) -> int:
    from faudit.store import Run
    from faudit.sweep.drive import drive
    from faudit.sweep.study import LIMIT, read

    given = {} if args.threads is None else {"threads": args.threads}
    configs = read(args.study, given, limit=LIMIT if args.max_runs is None else args.max_runs)
    start = ENGINES[args.engine](args.runs, data_dir=args.data_dir, jobs=args.jobs, address=args.address)
    if new := [config for config in configs if Run(args.runs / config.run_id).status == "new"]:  # the others have begun
        from faudit.sweep.check import refuse  # which imports torch

        refuse(new, data_dir=args.data_dir, data_elsewhere=start.data_elsewhere)
    if args.dry_run:
        return dry_run(configs, args)
    outcome = drive(configs, args.runs, start=start, retry_failed=args.retry_failed, board=args.tensorboard)
    for name, reason in {**outcome.failed, **outcome.left}.items():
        print(f"faudit: {name}: {reason}", file=sys.stderr)
    if outcome.failed and not args.retry_failed:
        remark(["failed runs are not run again; --retry-failed does"])
    print(f"{len(outcome.done)} done, {len(outcome.failed)} failed, {len(outcome.left)} left out: {args.runs}")
    return 2 if outcome.left else 1 if outcome.failed else 0


def dry_run(configs: Sequence[RunConfig], args: argparse.Namespace) -> int:
    """What a sweep would do: each run with its state, and about how long the missing ones take."""
    from faudit.sweep.engine import cores
    from faudit.sweep.estimate import estimated
    from faudit.tables import listed

    plan = estimated(configs, args.runs)
    rows = [[one.config.run_id, one.state, f"{one.epochs}/{one.config.epochs}", one.about] for one in plan.runs]
    say(listed(COLUMNS, rows, left=COLUMNS))
    remark(plan.damaged)
    for line in plan.lines(args.jobs or max(1, cores() // max(config.threads for config in configs))):
        print(line)
    return 0
