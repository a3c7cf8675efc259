"""``faudit data``: download the files of a dataset, or check them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faudit.cli.flags import Parser, add_data_dir
from faudit.data import DATASETS
from faudit.errors import ConfigError
from faudit.registry import unknown

HELP = "download the files of a dataset, or check them"
EXAMPLES = (
    "faudit data fetch cifar10 --data-dir data",
    "faudit data check mnist --data-dir data",
)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "action",
        choices=["fetch", "check"],
        metavar="fetch|check",
        help="fetch: download the files; check: verify them",
    )
    own.add_argument("name", metavar="NAME", help=f"the dataset: {', '.join(DATASETS)}")
    add_data_dir(own)
    own.add_argument("--url", help="download from this address; the official checksum still applies")


def run(args: argparse.Namespace) -> int:
    if args.name not in DATASETS:
        raise ConfigError(unknown("dataset", args.name, list(DATASETS)))
    if args.action == "check":
        from faudit.data.check import check

        for line in check(args.name, args.data_dir):
            print(line)
        return 0
    from faudit.cli.progress import downloads
    from faudit.data.fetch import fetch

    with downloads() as progress:
        paths = fetch(args.name, args.data_dir or Path("data"), url=args.url, progress=progress)
    for path in paths:
        print(path)
    if not paths:
        print(f"{args.name} ships with faudit: there is nothing to fetch", file=sys.stderr)
    return 0
