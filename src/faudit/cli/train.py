"""``faudit train``: train or resume one run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.cli.flags import Parser, add_data_dir, add_json, add_runs
from faudit.cli.output import complain, print_json, remark
from faudit.config import KEYS, SETTINGS, RunConfig, attribute, default, epoch_list, needs_files, switch

if TYPE_CHECKING:
    from faudit.store.run import Run

HELP = "train one run, or resume it; a finished run is not trained again"


def add_flags(own: Parser) -> None:
    own.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file with keys spelled like these flags; flags override it"
    )
    for name in KEYS:
        add_setting(own, name)
    add_runs(own)
    add_json(own)
    add_data_dir(own)
    own.add_argument(
        "--again", action="store_true", help="train from the start; the old files of the run are kept beside it"
    )


def add_setting(own: Parser, name: str) -> None:
    """Add a setting as a flag. The config checks its value, so that one error lists every problem."""
    about = SETTINGS[attribute(name)]
    if about["parse"] is switch:
        own.add_argument(f"--{name}", action="store_true", default=None, help=about["help"])
    elif about["parse"] is epoch_list:
        own.add_argument(f"--{name}", nargs="+", metavar="EPOCH", help=about["help"])
    else:
        own.add_argument(
            f"--{name}",
            metavar=name.upper().replace("-", "_"),
            help=f"{about['help']} (default: {default(attribute(name))})",
        )


def run(args: argparse.Namespace) -> int:
    given = {name: value for name in KEYS if (value := getattr(args, attribute(name))) is not None}
    config = RunConfig.from_toml(args.config, given) if args.config else RunConfig.parse(given, where="command line")

    from faudit.store.run import Run, Status
    from faudit.store.summary import overview

    chosen = Run(args.runs / config.run_id)
    if args.again and (aside := chosen.set_aside()):
        remark([f"the old files of {chosen.path} are in {aside}"])
    finish(config, chosen, data_dir=args.data_dir)
    entry = overview(chosen)
    if args.json:
        print_json(entry)
    else:
        print(entry["run"])
    if entry["status"] == Status.FAILED:
        complain([f"{entry['reason']} ({chosen.path}/failed.json); the rows so far are kept"])
        return 1
    return 0


def finish(config: RunConfig, run: Run, *, data_dir: Path | None) -> None:
    """Train the rest of a run. For a run that has ended, torch is imported only to check its data in ``data_dir``."""
    from faudit.store.run import ENDED

    if run.status in ENDED and not (data_dir and needs_files(config)):
        run.must_hold(config)
        run.must_be_whole()
        return
    from faudit.cli.progress import shown
    from faudit.train import stream

    shown(stream(config, run, data_dir=data_dir), total=config.epochs, title=config.rule)
