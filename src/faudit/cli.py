"""The command line: each verb parses, calls one function, prints.

stdout is for results, stderr for progress. Exit codes: 0 done, 1 a run diverged, 2 an error of the kind that one line
explains, 130 interrupted. torch is imported by the verbs that compute and by no other.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from faudit import __version__
from faudit.config import KEYS, SETTINGS, RunConfig, attribute, default, epoch_list, switch
from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError
from faudit.nets import NETS
from faudit.probes import PROBES
from faudit.registry import Registry, unknown
from faudit.rules import RULES

if TYPE_CHECKING:
    from faudit.store import Run

FAMILIES: dict[str, Registry[Any]] = {"nets": NETS, "rules": RULES, "data": DATASETS, "probes": PROBES}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # ‖h‖ and Γ must not crash a terminal that is set to ASCII
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_: print(f"faudit: warning: {message}", file=sys.stderr)
    try:
        args = parsed(parser(), argv)
        return int(args.run(args))
    except FauditError as error:
        for line in str(error).splitlines():
            print(f"faudit: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nfaudit: interrupted. The same command goes on from the last checkpoint.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        return 0


class Parser(argparse.ArgumentParser):
    """argparse with our kind of error, and no guessing at abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See `{self.prog} --help`.")


def parsed(top: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with an unknown verb or flag answered by the nearest valid one."""
    words = list(sys.argv[1:] if argv is None else argv)
    verbs = top.verbs  # type: ignore[attr-defined]  # set by parser()
    if words and not words[0].startswith("-") and words[0] not in verbs:
        raise ConfigError(unknown("command", words[0], list(verbs)))
    args, rest = top.parse_known_args(words)
    if rest:
        rest = [
            word for word in rest if word.startswith("-")
        ] or rest  # an unknown flag's value is not a second problem
        flags = [flag for action in args.own._actions for flag in action.option_strings if flag.startswith("--")]
        raise ConfigError(
            "\n".join(unknown("flag" if word.startswith("-") else "argument", word, flags) for word in rest)
        )
    return args


def parser() -> Parser:
    top = Parser(
        prog="faudit",
        description="Train with backprop and its alternatives; measure whether the credit signal still means anything.",
    )
    top.add_argument("--version", action="version", version=f"faudit {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND", parser_class=Parser)

    def verb(name: str, run: Any, text: str) -> Parser:
        own: Parser = verbs.add_parser(name, help=text, description=text)
        own.set_defaults(run=run, own=own)
        return own

    train = verb("train", run_train, "one run, or its resume; a finished run is not run again")
    train.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML, keys spelled like these flags; flags given here override it"
    )
    for name in KEYS:
        add_setting(train, name)
    add_store(train)
    train.add_argument("--data-dir", type=Path, metavar="DIR", help="where the dataset's files are")

    show = verb("show", run_show, "the runs of a store, or one run in full")
    show.add_argument("name", nargs="?", metavar="RUN", help="a run's directory, or its name in the store")
    add_store(show)

    listing = verb("list", run_list, "the members of a family")
    listing.add_argument("family", choices=list(FAMILIES), metavar="|".join(FAMILIES))
    listing.add_argument("--json", action="store_true", help="one JSON document on stdout")

    data = verb("data", run_data, "fetch a dataset's files, or check them")
    data.add_argument("action", choices=["fetch", "check"], metavar="fetch|check")
    data.add_argument("name", metavar="NAME", help=", ".join(DATASETS))
    data.add_argument("--data-dir", type=Path, metavar="DIR", help="where the files are or go")
    data.add_argument("--url", help="fetch from here instead; the official checksum still applies")

    demo = verb("demo", run_demo, "BP, FA, DFA, DFA + penalty and both frozen baselines on the embedded digits")
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where the runs go (default: demo)")

    bench = verb("bench", run_bench, "side-by-side speed in one run, as ratios")
    bench.add_argument("what", choices=["train"], metavar="train")
    bench.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="a real CIFAR-10; without it, noise of the same shape"
    )
    bench.add_argument("--threads", type=int, default=2, metavar="N", help="CPU threads (default: 2)")
    bench.add_argument("--repeats", type=int, default=3, metavar="N", help="epochs timed of each (default: 3)")
    bench.add_argument("--json", action="store_true", help="one JSON document on stdout")

    top.verbs = verbs.choices  # type: ignore[attr-defined]  # read by parsed()
    return top


def add_setting(own: Parser, name: str) -> None:
    """A config setting as a flag; its value is checked by the config, which lists every problem at once."""
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


def add_store(own: Parser) -> None:
    own.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the run store (default: runs)")
    own.add_argument("--json", action="store_true", help="one JSON document on stdout")


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


def run_show(args: argparse.Namespace) -> int:
    from faudit.errors import StoreError
    from faudit.store import Run, runs_in
    from faudit.tables import overview, readable, run_table, runs_table, settings_line

    if args.name:
        named = Path(args.name)
        run = Run(named if (named / "config.json").exists() else args.runs / args.name)
        if run.status == "new":
            known = [run.name for run in runs_in(args.runs)]
            raise StoreError(unknown(f"run (in {args.runs})", args.name, known))
        if args.json:
            print_json({**overview(run), "rows": [json.loads(line) for line in lines(run)]})
        else:
            say(run_table(run), settings_line(run))
        return 0
    entries, damaged = readable(runs_in(args.runs))
    if args.json:
        print_json(entries)
    else:
        say(runs_table(entries))
    for problem in damaged:
        print(f"faudit: {problem}", file=sys.stderr)
    return 2 if damaged else 0


def lines(run: Any) -> list[str]:
    """A run's rows as strict JSON."""
    from faudit.rows import to_line

    return [to_line(row) for row in run.rows()]


def say(*things: Any) -> None:
    """Print tables on stdout, never narrower than they need in a pipe."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 240)
    for thing in things:
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
    from faudit.data import fetch

    if args.name not in DATASETS:
        raise ConfigError(unknown("dataset", args.name, list(DATASETS)))
    if args.action == "check":
        for line in fetch.check(args.name, args.data_dir):
            print(line)
        return 0
    from faudit.progress import downloads

    with downloads() as progress:
        paths = fetch.fetch(args.name, args.data_dir or Path("data"), url=args.url, progress=progress)
    for path in paths:
        print(path)
    if not paths:
        print(f"{args.name} ships with faudit: there is nothing to fetch", file=sys.stderr)
    return 0


def run_demo(args: argparse.Namespace) -> int:
    from faudit import demo
    from faudit.store import Run
    from faudit.tables import overview, runs_table

    entries = []
    for config in demo.RUNS:
        run = Run(demo.store(args.out) / config.run_id)
        finish(config, run, data_dir=None, title=demo.title(config))
        entries.append({**overview(run), "run_id": demo.title(config)})
    say(runs_table(entries))
    print(f"runs: {demo.store(args.out)}")
    return 0


def finish(config: RunConfig, run: Run, *, data_dir: Path | None, title: str) -> None:
    """Train what is left of a run; torch is not even imported for one that has ended."""
    if run.status in ("done", "failed"):
        run.must_hold(config)
        return
    from faudit.progress import shown
    from faudit.train import stream

    shown(stream(config, run, data_dir=data_dir), total=config.epochs, title=title)


def run_bench(args: argparse.Namespace) -> int:
    from faudit.bench import lines, train_speed

    result = train_speed(data_dir=args.data_dir, threads_used=args.threads, repeats=args.repeats)
    if args.json:
        print_json(result)
    else:
        for line in lines(result):
            print(line)
    return 0
