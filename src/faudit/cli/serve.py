"""``faudit serve``: show the page of a store, live, in a browser on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

from faudit.cli.flags import Parser, add_runs, add_where, count
from faudit.cli.report import add_protocol, collection
from faudit.errors import ConfigError

HELP = "show the page of a store in a browser, live while runs train"
EXAMPLES = ("faudit serve --runs runs",)
PORT = 8421
GIVES_WAY = 10  # how much the server gives way to training on this machine


def add_flags(own: Parser) -> None:
    add_runs(own)
    add_where(own)
    add_protocol(own)
    own.add_argument(
        "--port", type=count, default=PORT, metavar="N", help=f"port (default: {PORT}; 0 takes a free one)"
    )
    own.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    own.add_argument(
        "--allow-others", action="store_true",
        help="allow an address of --host that other machines can reach; there is no password",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from faudit.report import vega
    from faudit.report.server import Server, is_loopback

    if args.port > 65535:
        raise ConfigError(f"--port: expected a port from 0 to 65535, got {args.port}")
    if not args.allow_others and not is_loopback(args.host):
        raise ConfigError(
            f"--host: expected an address of this machine such as 127.0.0.1, got {args.host!r}. Anyone who can reach "
            "that address could read the runs. Add --allow-others if that is what you want."
        )
    found = collection(args)
    found.look()
    vega.script()  # so that the first page is quick; raises if its package is missing
    with Server((args.host, args.port), found) as server:
        print(server.address, flush=True)
        print("Stop it with Ctrl-C.", file=sys.stderr)
        os.nice(GIVES_WAY)
        with suppress(KeyboardInterrupt):  # the way to stop it
            server.serve_forever(poll_interval=0.5)
    return 0
