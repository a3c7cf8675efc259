"""``faudit plot``: draw any entry of any runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from faudit.cli.flags import Parser, add_runs, add_venue, add_where
from faudit.cli.output import refuse_stdout, remark
from faudit.errors import ConfigError

HELP = "draw any entry of any runs, over the epochs, at one epoch, or two entries against each other"
EXAMPLES = (
    "faudit plot hidden_norms gamma --where data=digits --by rule --layer 2 --out my.pdf",
    "faudit plot growth test_acc --scatter --by rule --out scatter.png",
)
EVERY = "all"


def add_flags(own: Parser) -> None:
    own.add_argument("entries", nargs="+", metavar="ENTRY", help="an entry of a row such as gamma, or growth")
    own.add_argument(
        "--out", type=Path, required=True, metavar="FILE",
        help="a .pdf, .svg or .png file; its numbers go into a .json file beside it",
    )  # fmt: skip
    add_where(own)
    own.add_argument(
        "--by",
        nargs="+",
        metavar="KEY",
        help="settings that make the groups (default: all that differ between the runs)",
    )
    layers = own.add_mutually_exclusive_group()
    layers.add_argument(
        "--layer",
        nargs="+",
        type=layer,
        metavar="L",
        help="taps, blocks or parts, with a panel each; `all` for every one",
    )
    layers.add_argument(
        "--over", metavar="HOW", help="combine the layers: mean, max, last, or deep (mean without the first)"
    )
    own.add_argument("--at", metavar="EPOCH", help="one epoch, or `end`: means with 95 %% intervals")
    own.add_argument("--scatter", action="store_true", help="two entries against each other, one point per run")
    own.add_argument("--scale", default="auto", help="of the axis: auto, log or linear (default: auto)")
    add_runs(own)
    add_venue(own)


def layer(text: str) -> int | str:
    """Parse a layer; a negative one counts from the last."""
    try:
        return text if text == EVERY else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number or {EVERY}, got {text!r}") from None


def run(args: argparse.Namespace) -> int:
    from faudit.figures.figure import suffix
    from faudit.figures.groups import END
    from faudit.figures.plot import plot, scatter
    from faudit.store.files import must_be_file

    refuse_stdout("--out", args.out, "a picture's file, whose numbers go beside it")
    suffix(args.out)
    must_be_file(args.out)
    layers = None if args.layer is None else [] if EVERY in args.layer else args.layer
    common = {"runs": args.runs, "where": args.where, "by": args.by, "over": args.over, "scale": args.scale}
    if args.scatter:
        if len(args.entries) != 2:
            raise ConfigError(f"--scatter: expected two entries, got {len(args.entries)}")
        if layers is not None and len(layers) != 1:
            raise ConfigError(f"--scatter: expected one --layer, got {' '.join(map(str, args.layer))}")
        one = layers[0] if layers else None
        picture = scatter(*args.entries, layer=one, at=args.at or END, venue=args.venue, **common)
    else:
        picture = plot(*args.entries, layers=layers, at=args.at, venue=args.venue, **common)
    picture.save(args.out)
    remark(picture.remarks)
    print(args.out)
    return 0
