"""The command line: what can be asked, and how a refusal is told; what each verb does is in ``verbs``.

stdout is for results, stderr for progress. Exit codes: 0 done, 1 a run diverged, 2 an error of the kind that one line
explains, 130 interrupted. torch is imported by the verbs that compute and by no other.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from faudit import __version__, audit_verb, bench_verbs, store_verbs, sweep_verbs, verbs
from faudit.arms import Plan
from faudit.config import KEYS, SETTINGS, attribute, default, epoch_list, switch, whole
from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError
from faudit.figures import FIGURES
from faudit.registry import unknown
from faudit.sweep import ENGINES, STUDIES

TRAINING = ("train", "sweep", "reproduce", "demo")
REMEDY = " The same command goes on from the last checkpoint."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # ‖h‖ and Γ must not crash a terminal that is set to ASCII
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_: print(f"faudit: warning: {message}", file=sys.stderr)
    args = argparse.Namespace()
    try:
        args = parsed(parser(), argv)
        return int(args.run(args))
    except FauditError as error:
        for line in str(error).splitlines():
            print(f"faudit: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nfaudit: interrupted.{REMEDY if trains(args) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        return 0


def trains(args: argparse.Namespace) -> bool:
    """Whether a command makes runs, which stay where they were when it is stopped."""
    return getattr(args, "verb", "") in TRAINING or bool(getattr(args, "with_controls", False))


class Parser(argparse.ArgumentParser):
    """argparse with our kind of error, and no guessing at abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See `{self.prog} --help`.")


def parsed(top: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with an unknown verb or flag answered by the nearest valid one."""
    words = list(sys.argv[1:] if argv is None else argv)
    known = top.verbs  # type: ignore[attr-defined]  # set by parser()
    if words and not words[0].startswith("-") and words[0] not in known:
        raise ConfigError(unknown("command", words[0], list(known)))
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
    commands = top.add_subparsers(dest="verb", required=True, metavar="COMMAND", parser_class=Parser)

    def verb(name: str, run: Any, text: str) -> Parser:
        own: Parser = commands.add_parser(name, help=text, description=text)
        own.set_defaults(run=run, own=own)
        return own

    train = verb("train", verbs.run_train, "one run, or its resume; a finished run is not run again")
    train.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML, keys spelled like these flags; flags given here override it"
    )
    for name in KEYS:
        add_setting(train, name)
    add_store(train)
    train.add_argument("--data-dir", type=Path, metavar="DIR", help="where the dataset's files are")

    show = verb("show", store_verbs.run_show, "the runs of a store, or one run in full")
    show.add_argument("name", nargs="?", metavar="RUN", help="a run's directory, or its name in the store")
    add_store(show)
    add_where(show)

    add_sweep(verb("sweep", sweep_verbs.run_sweep, "every run of a study that is missing, each exactly once"))

    listing = verb("list", verbs.run_list, "the members of a family")
    listing.add_argument("family", choices=list(verbs.FAMILIES), metavar="|".join(verbs.FAMILIES))
    listing.add_argument("--json", action="store_true", help="one JSON document on stdout")

    data = verb("data", verbs.run_data, "fetch a dataset's files, or check them")
    data.add_argument("action", choices=["fetch", "check"], metavar="fetch|check")
    data.add_argument("name", metavar="NAME", help=", ".join(DATASETS))
    data.add_argument("--data-dir", type=Path, metavar="DIR", help="where the files are or go")
    data.add_argument("--url", help="fetch from here instead; the official checksum still applies")

    demo = verb("demo", verbs.run_demo, "BP, FA, DFA, DFA + penalty and both frozen baselines on the embedded digits")
    demo.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where the runs go (default: demo)")

    audit = verb(
        "audit", audit_verb.run_audit, "a verdict on runs or a model: 0 trustworthy, 1 needs walk-back, 3 inconclusive"
    )
    audit.add_argument("names", nargs="*", metavar="RUN", help="a run's directory, or its name in the store")
    add_store(audit)
    audit.add_argument("--protocol", default="faudit-1", help="faudit-1 or study (default: faudit-1)")
    audit.add_argument("--data-dir", type=Path, metavar="DIR", help="where the dataset's files are")
    audit.add_argument("--with-controls", action="store_true", help="train the matched frozen runs that are missing")
    audit.add_argument("--utility", action="store_true", help="what each reporting strategy would have concluded")
    audit.add_argument(
        "--sensitivity", action="store_true", help="which verdicts change, had a threshold stood elsewhere"
    )
    audit.add_argument("--markdown", type=Path, metavar="FILE", help="write the findings as a page for an appendix")
    add_model(audit)

    figure = verb("figure", verbs.run_figure, "one figure from the runs present; says which are missing")
    figure.add_argument("name", metavar="NAME", help=", ".join(FIGURES))
    figure.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=".pdf, .svg or .png; the numbers go beside it as .json"
    )
    figure.add_argument("--partial", action="store_true", help="draw what is there, though runs are missing")
    add_plan(figure)

    again = verb(
        "reproduce", verbs.run_reproduce, "the runs a figure or the claims need, then the figures and the claims"
    )
    again.add_argument("name", metavar="NAME", help=f"{', '.join(FIGURES)}, claims or all")
    again.add_argument(
        "--out", type=Path, default=Path("study"), metavar="DIR", help="for the results (default: study)"
    )
    again.add_argument("--data-dir", type=Path, metavar="DIR", help="where the dataset's files are")
    again.add_argument(
        "--jobs", type=count, default=None, metavar="N",
        help="runs side by side (default: one per core); 0 makes none and draws what is there",
    )  # fmt: skip
    add_plan(again)

    export = verb("export", store_verbs.run_export_as, "the runs as the published study's files, or as one table")
    export.add_argument("--out", type=Path, required=True, metavar="PATH", help="for `results`, or the table's file")
    export.add_argument(
        "--format", choices=["study", "csv", "parquet"], default="study", metavar="study|csv|parquet",
        help="the study's files (default), or every row of every run in one table",
    )  # fmt: skip
    add_where(export)
    add_plan(export, venue=False)

    back = verb("import", verbs.run_import, "the published study's result files as runs, marked imported")
    back.add_argument("files", type=Path, nargs="+", metavar="FILE", help="JSON files of the study, or exported ones")
    back.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the run store (default: runs)")

    bench = verb("bench", bench_verbs.run_bench, "speed as ratios in one run; the protocol against planted faults")
    bench.add_argument("what", choices=list(bench_verbs.BENCHES), metavar="|".join(bench_verbs.BENCHES))
    bench.add_argument("--seeds", type=count, nargs="+", metavar="S", help="of planted networks (default: 7 8 9)")
    bench.add_argument("--jobs", type=count, metavar="N", help="of a sweep or planted networks (default: one per core)")
    bench.add_argument("--out", type=Path, metavar="DIR", help="for the planted table (default: protocol)")
    bench.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="a real CIFAR-10; without it, noise of the same shape"
    )
    bench.add_argument("--threads", type=int, metavar="N", help="CPU threads of training or an audit (default: 2)")
    bench.add_argument("--repeats", type=int, metavar="N", help="epochs or audits timed of each (default: 3)")
    bench.add_argument("--json", action="store_true", help="one JSON document on stdout")

    top.verbs = commands.choices  # type: ignore[attr-defined]  # read by parsed()
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


def add_model(own: Parser) -> None:
    """A model of somebody else's code instead of runs."""
    own.add_argument(
        "--model", metavar="PACKAGE.MODULE:FACTORY", help="instead of runs: a function that returns an nn.Module"
    )
    own.add_argument("--weights", type=Path, metavar="FILE", help="safetensors, or a torch.save of a state dict")
    own.add_argument("--taps", nargs="+", metavar="PATTERN", help="submodules to measure at, such as 'blocks.*'")
    own.add_argument("--data", metavar="NAME", help="dataset whose test samples are measured on")
    own.add_argument("--samples", type=count, metavar="N", help=f"how many of them (default: {audit_verb.SAMPLES})")
    own.add_argument(
        "--credit", metavar="PACKAGE.MODULE:NAME", help="credit(taps, logits, y), a signal shaped as each tap"
    )
    own.add_argument(
        "--frozen-accuracy", type=float, nargs="+", metavar="A", help="of models whose tapped blocks never trained"
    )


def add_sweep(own: Parser) -> None:
    own.add_argument(
        "study", type=Path, metavar="STUDY", help=f"a study file (docs/sweeps.md), or {', '.join(STUDIES)}"
    )
    own.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the run store (default: runs)")
    own.add_argument("--data-dir", type=Path, metavar="DIR", help="where the datasets' files are")
    own.add_argument("--jobs", type=count, metavar="N", help="runs side by side (default: as many as cores allow)")
    own.add_argument("--threads", metavar="T", help="CPU threads of each run, over what the study says")
    own.add_argument("--engine", choices=list(ENGINES), default="local", metavar="|".join(ENGINES), help="who trains")
    own.add_argument("--address", metavar="A", help="HOST:PORT of a Ray cluster (default: a Ray of one's own)")
    own.add_argument("--dry-run", action="store_true", help="list the runs and their state, estimate the time")
    own.add_argument("--retry-failed", action="store_true", help="train runs that failed again, from epoch 0")
    own.add_argument("--max-runs", type=count, metavar="N", help="allow a study of so many runs (default: 10,000)")
    own.add_argument("--tensorboard", type=Path, metavar="DIR", help="write the rows as TensorBoard events there too")


def add_where(own: Parser) -> None:
    own.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE",
        help="only runs with this setting (or status); several keys: all, several values of one key: any",
    )  # fmt: skip


def add_plan(own: Parser, *, venue: bool = True) -> None:
    """Which runs: the study's full recipe unless told otherwise."""
    full = Plan()
    own.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the run store (default: runs)")
    own.add_argument("--data", metavar="NAME", help=f"dataset (default: {full.data})")
    own.add_argument("--epochs", type=count, metavar="N", help="of every run (default: as many as the study)")
    seeds = " ".join(map(str, full.seeds))
    own.add_argument("--seeds", type=count, nargs="+", metavar="S", default=full.seeds, help=f"(default: {seeds})")
    if venue:
        own.add_argument("--venue", default="neurips", help="page width: neurips, icml or iclr (default: neurips)")


def count(text: str) -> int:
    """A whole number on the command line."""
    try:
        return int(whole(0, 2**63 - 1)(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {error}, got {text!r}") from None


def add_store(own: Parser) -> None:
    own.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the run store (default: runs)")
    own.add_argument("--json", action="store_true", help="one JSON document on stdout")
