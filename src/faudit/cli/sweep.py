"""``faudit sweep``: train the missing runs of a study."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from faudit.cli.flags import Parser, add_runs, add_trackers, count, trackers_of
from faudit.cli.output import complain, remark, say
from faudit.config import RunConfig, needs_files
from faudit.sweep import ENGINES, STUDIES

COLUMNS = ("run", "state", "epochs", "about")  # of the table that --dry-run prints


HELP = "train the missing runs of a study, each exactly once"
EXAMPLES = (
    "faudit sweep rules --dry-run",
    "faudit sweep study.toml --jobs 4",
)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "study",
        type=Path,
        metavar="STUDY",
        help=f"a study file (see docs/sweeps.md) or a built-in study: {', '.join(STUDIES)}",
    )
    add_runs(own)
    own.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the datasets' files")
    own.add_argument("--jobs", type=count, metavar="N", help="runs side by side (default: as many as the cores allow)")
    own.add_argument(
        "--stack",
        metavar="auto|off|N",
        help="train up to N small runs that differ in seed, rate or λ as one computation (default: auto)",
    )
    own.add_argument("--threads", metavar="T", help="CPU threads of each run (default: as in the study)")
    own.add_argument(
        "--engine",
        choices=list(ENGINES),
        default="local",
        metavar="|".join(ENGINES),
        help="local: processes on this machine; ray: tasks on a Ray cluster; slurm: jobs of SLURM (default: local)",
    )
    own.add_argument(
        "--address", metavar="A", help="HOST:PORT of a Ray cluster, or auto (default: start Ray on this machine)"
    )
    own.add_argument(
        "--dry-run", action="store_true", help="train nothing; list the runs with their state and estimate the time"
    )
    own.add_argument("--retry-failed", action="store_true", help="train failed runs again, from epoch 0")
    own.add_argument("--max-runs", type=count, metavar="N", help="most runs that a study may have (default: 10,000)")
    add_trackers(own)
    add_slurm(own)


def add_slurm(own: Parser) -> None:
    group = own.add_argument_group("only with --engine slurm")
    group.add_argument("--partition", metavar="P", help="partition of the jobs (default: SLURM's own)")
    group.add_argument("--time-limit", metavar="T", help="of one job: minutes, H:M:S or D-H:M:S (default: 1:00:00)")
    group.add_argument("--memory", metavar="M", help="memory of one run, such as 4G (default: SLURM's own)")
    group.add_argument("--cpus", type=count, metavar="N", help="CPUs of one run (default: its threads)")
    group.add_argument("--runs-per-job", type=count, metavar="N", help="runs that a job trains in turn (default: 1)")
    group.add_argument("--log-dir", type=Path, metavar="DIR", help="folder of the logs (default: slurm in the store)")
    group.add_argument(
        "--sbatch",
        action="append",
        metavar="KEY=VALUE",
        help="another option of sbatch, such as account=lab; repeatable",
    )


def run(args: argparse.Namespace) -> int:
    from faudit.store.run import Run, Status, must_not_begin_again
    from faudit.sweep.drive import drive
    from faudit.sweep.engine import Flags
    from faudit.sweep.study import LIMIT, read

    given = {} if args.threads is None else {"threads": args.threads}
    configs = read(args.study, given, limit=LIMIT if args.max_runs is None else args.max_runs)
    flags = Flags(**{one.name: getattr(args, one.name) for one in fields(Flags)})
    start = ENGINES[args.engine](args.runs, data_dir=args.data_dir, jobs=args.jobs, flags=flags)
    new = [config for config in configs if Run(args.runs / config.run_id).status == Status.NEW]
    for config in new:
        must_not_begin_again(config, args.runs)
    if new:  # the others were checked when they began
        from faudit.sweep.check import refuse  # here, since it imports torch

        refuse(new, data_dir=args.data_dir, elsewhere=start.elsewhere)
    if args.data_dir and len(new) < len(configs) and any(map(needs_files, configs)):
        from faudit.sweep.check import refuse_other_data

        remark(refuse_other_data(configs, args.runs, data_dir=args.data_dir))
    if args.dry_run:
        return forecast(configs, runs=args.runs, jobs=args.jobs or start.at_once)
    outcome = drive(configs, args.runs, start=start, retry_failed=args.retry_failed, trackers=trackers_of(args))
    complain(f"{name}: {reason}" for name, reason in {**outcome.failed, **outcome.left}.items())
    if outcome.failed and not args.retry_failed:
        remark(["failed runs are not trained again; use --retry-failed to do so"])
    print(f"{len(outcome.done)} done, {len(outcome.failed)} failed, {len(outcome.left)} left out: {args.runs}")
    return 2 if outcome.left else 1 if outcome.failed else 0


def forecast(configs: Sequence[RunConfig], *, runs: Path, jobs: int | None) -> int:
    """Print what would be trained: each run with its state, and about how long the missing ones take."""
    from faudit.cli.tables import listed
    from faudit.sweep.engine import cores
    from faudit.sweep.estimate import estimated

    plan = estimated(configs, runs)
    rows = [[one.config.run_id, one.state, f"{one.epochs}/{one.config.epochs}", one.about] for one in plan.runs]
    say(listed(COLUMNS, rows, left=COLUMNS))
    remark(plan.damaged)
    at_once = jobs or max(1, cores() // max(config.threads for config in configs))
    for line in plan.lines(min(at_once, len(configs))):
        print(line)
    return 0
