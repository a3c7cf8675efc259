"""``faudit report``: write the runs of a store as one page that opens in a browser without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.audit.protocol import DEFAULT, PROTOCOLS
from faudit.cli.flags import Parser, add_data_dir, add_runs, add_where
from faudit.cli.output import complain, remark, write_page
from faudit.errors import FauditError
from faudit.store.files import STDOUT, must_be_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from faudit.audit.protocol import Protocol
    from faudit.report.collection import Collection

HELP = "write the runs of a store as one page: verdicts, tables, plots and claims"
EXAMPLES = (
    "faudit report --out report.html",
    "faudit report --where rule=dfa --out dfa.html",
)


def add_flags(own: Parser) -> None:
    own.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .html file to write; - is stdout")
    add_runs(own)
    add_where(own)
    add_protocol(own)
    own.add_argument(
        "--audit", action="store_true",
        help="first audit the selected runs that are finished, which may take minutes; else only kept audits are used",
    )  # fmt: skip
    add_data_dir(own)


def add_protocol(own: Parser) -> None:
    """``--protocol``: the checks behind the verdicts."""
    own.add_argument(
        "--protocol", default=DEFAULT, help=f"the checks to apply: {', '.join(PROTOCOLS)} (default: {DEFAULT})"
    )


def run(args: argparse.Namespace) -> int:
    from faudit.audit.protocol import protocol
    from faudit.report.collection import must_hold_runs
    from faudit.report.page import html

    found = collection(args)
    if args.out != STDOUT:
        must_be_file(args.out)
    if args.audit:
        measure(args.runs, protocol(args.protocol), chosen=found.chosen, data_dir=args.data_dir)
    found.look()
    must_hold_runs(found)
    write_page(args.out, html(found))
    complain(found.problems)
    if args.out != STDOUT:
        print(args.out)
    return 2 if found.problems else 0


def collection(args: argparse.Namespace) -> Collection:
    """The runs that the flags select, not yet read."""
    from faudit.audit.protocol import protocol
    from faudit.report.collection import Collection
    from faudit.store.index import entries
    from faudit.store.where import conditions, matches

    wanted = conditions(args.where, entries(args.runs)[0]) if args.where else []
    return Collection(args.runs, protocol(args.protocol), args.where, lambda entry: matches(entry, wanted))


def measure(runs: Path, asked: Protocol, *, chosen: Callable[[Any], bool], data_dir: Path | None) -> None:
    """Audit every selected run that has ended, so that the page can show its verdict."""
    from faudit.audit.audit import ControlIndex, audit
    from faudit.store.counts import counted
    from faudit.store.index import entries
    from faudit.store.run import ENDED, Run

    found, _ = entries(runs)
    ended = [Run(Path(entry["run"])) for entry in found if chosen(entry) and entry["status"] in ENDED]
    beside = ControlIndex(runs)
    refused = []
    for one in counted(ended, lambda run: run.name):
        try:
            audit(one, asked, data_dir=data_dir, beside=beside)
        except FauditError as error:
            refused.append(f"not audited: {error}")
    remark(refused)
