"""``faudit audit``: audit runs of a store or, with ``--model``, your own model."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.audit.protocol import DEFAULT, PROTOCOLS
from faudit.cli.exit_codes import VERDICTS
from faudit.cli.flags import Parser, add_data_dir, add_json, add_runs, count
from faudit.cli.output import print_json, remark, write_page
from faudit.config import quoted
from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError, error_text
from faudit.registry import here, nearest, unknown
from faudit.rules import RULES
from faudit.store.files import STDOUT, must_be_file
from faudit.store.run import PATTERN, run_named, runs_named
from faudit.store.watched import WatchedConfig

if TYPE_CHECKING:
    from torch import nn

    from faudit.audit.audit import Audited
    from faudit.audit.method import Method
    from faudit.store.run import Run

Table = dict[str, Any]
SAMPLES = 256
OF_MODEL = ("weights", "taps", "data", "samples", "credit", "frozen_accuracy")  # flags that apply only to a model
OF_RUNS = ("with_controls", "utility", "sensitivity", "latex")  # flags that apply only to runs


HELP = "audit runs or your own model; exit code 0 trustworthy, 1 needs walk-back, 3 inconclusive"


def add_flags(own: Parser) -> None:
    own.add_argument(
        "names", nargs="*", metavar="RUN", help="a run's directory, or its name, prefix or pattern in the store"
    )
    add_runs(own)
    add_json(own)
    own.add_argument(
        "--protocol", default=DEFAULT, help=f"the checks to apply: {', '.join(PROTOCOLS)} (default: {DEFAULT})"
    )
    add_data_dir(own)
    own.add_argument(
        "--with-controls", action="store_true", help="first train the matched frozen runs that are missing"
    )
    own.add_argument("--utility", action="store_true", help="also show the verdict of each reporting strategy")
    own.add_argument(
        "--sensitivity", action="store_true", help="also show which verdicts would change with other thresholds"
    )
    own.add_argument("--markdown", type=Path, metavar="FILE", help="write the findings as a Markdown page; - is stdout")
    own.add_argument("--latex", type=Path, metavar="FILE", help="write the table of each method in LaTeX; - is stdout")
    model = own.add_argument_group("your own model, instead of runs")
    model.add_argument("--model", metavar="PACKAGE.MODULE:FACTORY", help="a function that returns an nn.Module")
    model.add_argument(
        "--weights", type=Path, metavar="FILE", help="its weights: safetensors, or a state dict saved by torch.save"
    )
    model.add_argument("--taps", nargs="+", metavar="PATTERN", help="submodules to measure at, such as 'blocks.*'")
    model.add_argument("--data", metavar="NAME", help="the dataset; the audit uses its test samples")
    model.add_argument("--samples", type=count, metavar="N", help=f"number of test samples (default: {SAMPLES})")
    model.add_argument(
        "--credit",
        metavar="PACKAGE.MODULE:NAME",
        help="a function credit(taps, logits, y) that returns one signal per tap, shaped like the tap",
    )
    model.add_argument(
        "--frozen-accuracy",
        type=float,
        nargs="+",
        metavar="A",
        help="test accuracies of the same model trained with its tapped blocks frozen",
    )


def run(args: argparse.Namespace) -> int:
    refuse_pages(args)
    if args.model is None:
        of_model = [flag(name) for name in OF_MODEL if getattr(args, name) is not None]
        if of_model:
            raise ConfigError(f"{of_model[0]} is for a model of your own: expected --model too, got runs only")
        if not (args.names or args.utility or args.sensitivity):
            raise ConfigError(
                "nothing to audit: expected RUN names, --utility or --sensitivity for all runs of the store, "
                "or --model package.module:factory"
            )
        return audit_runs(args)
    of_runs = [flag(name) for name in OF_RUNS if getattr(args, name)]
    if args.names or of_runs:
        came = args.names[0] if args.names else of_runs[0]
        raise ConfigError(f"--model cannot be combined with runs: expected one of them, got {came!r} too")
    for name in ("taps", "data"):
        if getattr(args, name) is None:
            raise ConfigError(f"--model needs {flag(name)} too: expected it, got none. See `faudit audit --help`.")
    return audit_factory(args)


def refuse_pages(args: argparse.Namespace) -> None:
    """Raise before anything is measured if a page cannot be written."""
    printed = [told for told, path in (("--markdown -", args.markdown), ("--latex -", args.latex)) if path == STDOUT]
    printed += ["--json"] if args.json else []
    if len(printed) > 1:
        both = " and ".join(printed[:2])
        raise ConfigError(f"{both}: expected one of them on standard output, got both. Name a file.")
    for path in (args.markdown, args.latex):
        if path and path != STDOUT:
            must_be_file(path)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def audit_runs(args: argparse.Namespace) -> int:
    from faudit.audit.audit import ControlIndex, audit
    from faudit.audit.method import methods, worst
    from faudit.audit.page import method_latex, page
    from faudit.audit.protocol import protocol
    from faudit.audit.utility import sensitivity, utility

    asked = protocol(args.protocol)
    found = [run for name in args.names for run in audited_as(name, args.runs)]
    runs = each_once(found or finished(args.runs))
    if args.with_controls:
        make_controls(runs, data_dir=args.data_dir)
    beside = {store: ControlIndex(store) for store in {run.path.parent for run in runs}}
    audited, refused = [], []
    for run in runs:
        try:
            audited.append(audit(run, asked, data_dir=args.data_dir, beside=beside[run.path.parent]))
        except FauditError as error:
            if args.names:
                raise
            refused.append(error)
    if not audited:
        raise refused[0]
    remark([*(text for one in audited for text in one.remarks), *(f"left out: {error}" for error in refused)])
    by_method = methods([(one.config, one.verdict) for one in audited])
    extra = {
        "utility": utility(audited, asked) if args.utility else None,
        "sensitivity": sensitivity(audited, asked) if args.sensitivity else None,
    }
    together = worst([one.verdict for one in audited])
    if args.markdown:
        text = page(audited, asked, utility_of=extra["utility"], sensitivity_of=extra["sensitivity"])
        write_page(args.markdown, text)
    if args.latex:
        write_page(args.latex, "\n\n".join(map(method_latex, by_method)))
    if args.json:
        print_json(
            {
                "protocol": asked.name,
                "verdict": together,
                "methods": [method.to_json() for method in by_method],
                "runs": [one.to_json() for one in audited],
                **{name: table for name, table in extra.items() if table is not None},
            }
        )
    elif STDOUT not in (args.markdown, args.latex):
        tell(audited, by_method, **extra)
    return VERDICTS[together]


def audited_as(name: str, store: Path) -> list[Run]:
    """The run of a name or prefix, or every run that fits a pattern."""
    return runs_named(name, store) if any(letter in name for letter in PATTERN) else [run_named(name, store)]


def finished(store: Path) -> list[Run]:
    """Every finished run of a store. Damaged runs are reported and left out."""
    from faudit.store.run import ENDED, runs_in

    runs = []
    for run in runs_in(store):
        try:
            run.config()
        except FauditError as error:
            remark([f"left out: {error}"])
            continue
        if run.status in ENDED:
            runs.append(run)
    if not runs:
        raise ConfigError(f"nothing to audit: expected RUN names or a store with finished runs, got none in {store}")
    return runs


def each_once(runs: list[Run]) -> list[Run]:
    """The runs without copies. A copy would count as one more seed."""
    from faudit.store.index import copies, copy_of

    twice = copies({str(run.path): run.config().run_id for run in runs})
    remark(copy_of(path, other) for path, other in twice.items())
    return list({run.path: run for run in runs if str(run.path) not in twice}.values())


def make_controls(runs: list[Run], *, data_dir: Path | None) -> None:
    """Train the missing matched frozen runs, in the store of each run, for the rules that have a control."""
    from faudit.audit.audit import ControlIndex, control_of
    from faudit.sweep.engine import cores
    from faudit.sweep.local import run_all

    for store in dict.fromkeys(run.path.parent for run in runs):
        there = ControlIndex(store)
        configs = [run.config() for run in runs if run.path.parent == store]
        remark(f"{config.run_id} is watched: train its control with faudit.control" for config in configs
               if isinstance(config, WatchedConfig))  # fmt: skip
        configs = [config for config in configs if not isinstance(config, WatchedConfig)]
        configs = [config for config in configs if RULES[config.rule].no_control is None]
        wanted = [control_of(config) for config in configs if there.control(config) is None]
        outcome = run_all(wanted, store, data_dir=data_dir, jobs=cores())
        remark([f"{name}: {reason}" for name, reason in {**outcome.failed, **outcome.left}.items()])


def tell(audited: list[Audited], by_method: list[Method], *, utility: Table | None, sensitivity: Table | None) -> None:
    """Print verdicts with their reasons, then methods with several seeds, then the requested tables."""
    from faudit.audit.page import method_table
    from faudit.audit.utility import KEY, aligned, sensitivity_table, utility_table

    for one in audited:
        print(f"{one.run.name}: {one.verdict.verdict}")
        for reason in one.verdict.reasons:
            print(f"    {reason}")
    for method in by_method:
        if len(method.seeds) > 1:
            print(f"{method.name}, {len(method.seeds)} seeds: {method.verdict}")
            for text in aligned(method_table(method)):
                print(f"    {text}")
    for table in (utility_table(utility) if utility else None, sensitivity_table(sensitivity) if sensitivity else None):
        for text in aligned(table) if table else []:
            print(text)
    if utility:
        print(KEY)


def audit_factory(args: argparse.Namespace) -> int:
    """Build the model, load its weights, audit it on a dataset's test samples, and print."""
    if args.data not in DATASETS:
        raise ConfigError(unknown("dataset", args.data, list(DATASETS)))
    if args.samples == 0:
        raise ConfigError("--samples: expected at least 1, got 0")
    from faudit.audit.protocol import protocol
    from faudit.watch.model import audit_model
    from faudit.watch.weights import load_weights

    protocol(args.protocol)
    with here():
        model = built(args.model)
        credit = named(args.credit, "--credit") if args.credit else None
    if args.weights:
        load_weights(model, args.weights)
    dataset = DATASETS[args.data](args.data_dir)
    x, y = dataset.buffer(SAMPLES if args.samples is None else args.samples)
    dtype = next((value.dtype for value in model.parameters() if value.is_floating_point()), None)
    x = dataset.normalise(x, dtype) if dtype else dataset.normalise(x)
    audited = audit_model(
        model,
        [(x, y)],
        taps=args.taps,
        credit=credit,
        frozen=args.frozen_accuracy or (),
        protocol=args.protocol,
    )
    if args.markdown:
        write_page(args.markdown, audited.page(args.model))
    if args.json:
        print_json({"model": args.model, **audited.to_json()})
    elif args.markdown != STDOUT:
        print(audited)
    return VERDICTS[audited.verdict.verdict]


def built(target: str) -> nn.Module:
    """The model that a factory makes. Random weights come from seed 0, so they are always the same."""
    import torch
    from torch import nn

    factory = named(target, "--model")
    with torch.random.fork_rng(devices=[]), one_line(f"--model {target}"):
        torch.manual_seed(0)
        model = factory()
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"--model {target}: expected a factory that returns a torch.nn.Module, got {type(model).__name__}"
        )
    return model


def named(target: str, flag: str) -> Any:
    """The callable with the name "package.module:name"."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{flag}: expected package.module:name, got {target!r}")
    with one_line(f"{flag} {target}"):
        module = importlib.import_module(module_name)
    found = getattr(module, name, None)
    if found is not None and not callable(found):
        raise ConfigError(f"{flag} {target}: expected a callable, got {name!r}, which is {quoted(found)}")
    if found is None:
        callables = [other for other, value in vars(module).items() if callable(value)]
        raise ConfigError(f"{flag} {target}: {module_name} has no callable {name!r}{nearest(name, callables)}")
    return found


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Run the user's code: turn whatever it raises into a one-line error. faudit's own errors pass unchanged."""
    try:
        yield
    except FauditError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{what} failed: {error_text(error)}. Expected code that runs in {Path.cwd().name}/."
        ) from error
