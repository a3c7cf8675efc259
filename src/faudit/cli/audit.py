"""``faudit audit``: audit runs of a store or, with ``--model``, your own model."""

from __future__ import annotations

import argparse
import hashlib
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.audit.protocol import DEFAULT, PROTOCOLS
from faudit.cli.exit_codes import VERDICTS
from faudit.cli.flags import Parser, add_data_dir, add_json, add_runs, add_where, count
from faudit.cli.output import print_json, remark, write_page
from faudit.cli.progress import counting
from faudit.config import quoted
from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError, error_text
from faudit.registry import here, nearest, unknown
from faudit.rules import RULES
from faudit.store.files import STDOUT, contents, must_be_file, refusals
from faudit.store.run import PATTERN, run_named, runs_named
from faudit.store.watched import WatchedConfig

if TYPE_CHECKING:
    from torch import nn

    from faudit.audit.audit import Audited
    from faudit.audit.method import Method
    from faudit.audit.sheet import Part
    from faudit.store.run import Run

Table = dict[str, Any]
PAGES = ("markdown", "latex")  # the flags that write a page
SAMPLES = 256
OF_MODEL = ("weights", "taps", "data", "samples", "credit", "plain", "frozen_accuracy")  # flags only of a model
OF_RUNS = (
    "all",
    "where",
    "with_controls",
    "jobs",
    "utility",
    "sensitivity",
    "all_settings",
)  # flags that apply only to runs

HELP = "audit runs or your own model; exit code 0 trustworthy, 1 needs walk-back, 3 inconclusive"
ABOUT = (
    "Audit runs or your own model. The exit code is the verdict. 0, trustworthy: every check that applies passed. "
    "1, needs walk-back: at least one check fired, so take back the conclusions that rest on this run. "
    "3, inconclusive: no check fired, but one could not be answered."
)
EXAMPLES = (
    "faudit audit resmlp-dfa-digits-s42-4b3b10dc95 --with-controls --jobs 2",
    "faudit audit --where rule=dfa --where data=digits --markdown appendix.md",
    "faudit audit --all --json",
    "faudit audit --model package.module:factory --weights model.safetensors --taps 'blocks.*' --data digits",
)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "names", nargs="*", metavar="RUN", help="a run's directory, or its name, prefix or pattern in the store"
    )
    own.add_argument("--all", action="store_true", help="audit every finished run of the store")
    add_where(own)
    add_runs(own)
    add_json(own)
    own.add_argument(
        "--protocol", default=DEFAULT, help=f"the checks to apply: {', '.join(PROTOCOLS)} (default: {DEFAULT})"
    )
    add_data_dir(own)
    own.add_argument(
        "--with-controls", action="store_true", help="first train the matched frozen runs that are missing"
    )
    own.add_argument("--jobs", type=count, metavar="N", help="controls to train side by side (default: one per core)")
    own.add_argument("--utility", action="store_true", help="also show the verdict of each reporting strategy")
    own.add_argument(
        "--sensitivity", action="store_true", help="also show which verdicts would change with other thresholds"
    )
    own.add_argument(
        "--markdown", type=Path, metavar="FILE",
        help="write an appendix page: checks, thresholds, findings, settings, hashes and versions; - is stdout",
    )  # fmt: skip
    own.add_argument(
        "--latex", type=Path, metavar="FILE", help="write the same page as LaTeX, for \\input in a paper; - is stdout"
    )
    own.add_argument(
        "--all-settings", action="store_true", help="the page lists every setting, also those at their default"
    )
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
        "--plain",
        metavar="PACKAGE.MODULE:FACTORY",
        help="a function that returns the same network with ordinary layers, for a model with a backward pass of its "
        "own; the name of the model itself says that this backward pass is meant",
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
        refuse_choice(args)
        return audit_runs(args)
    of_runs = [flag(name) for name in OF_RUNS if getattr(args, name)]
    if args.names or of_runs:
        came = args.names[0] if args.names else of_runs[0]
        raise ConfigError(f"--model cannot be combined with runs: expected one of them, got {came!r} too")
    for name in ("taps", "data"):
        if getattr(args, name) is None:
            raise ConfigError(f"--model needs {flag(name)} too: expected it, got none. See `faudit audit --help`.")
    return audit_factory(args)


def refuse_choice(args: argparse.Namespace) -> None:
    """Raise unless exactly one way to choose runs was given; --utility and --sensitivity alone mean all runs."""
    ways = {"RUN names": args.names, "--all": args.all, "--where": args.where}
    given = [way for way, value in ways.items() if value]
    if len(given) > 1:
        raise ConfigError(f"the runs to audit: expected one of {', '.join(ways)}, got {' and '.join(given)}")
    if not (given or args.utility or args.sensitivity):
        raise ConfigError(
            "nothing to audit: expected RUN names, --all for every finished run of the store, --where KEY=VALUE for "
            "some of them, or --model package.module:factory"
        )
    if args.jobs is not None and not args.with_controls:
        raise ConfigError("--jobs: expected with --with-controls, which trains runs, got it without. Leave it out.")
    if args.jobs == 0:
        raise ConfigError("--jobs: expected at least 1, got 0")


def refuse_pages(args: argparse.Namespace) -> None:
    """Raise before anything is measured if a page cannot be written."""
    printed = [f"{flag(name)} -" for name in PAGES if getattr(args, name) == STDOUT] + ["--json"] * args.json
    if len(printed) > 1:
        told = " and ".join(printed)
        raise ConfigError(f"{told}: expected one of them on standard output, got both. Name a file.")
    for path in (getattr(args, name) for name in PAGES):
        if path and path != STDOUT:
            must_be_file(path)
    if args.all_settings and not (args.markdown or args.latex):
        raise ConfigError("--all-settings: expected with --markdown or --latex, whose page it is about, got neither.")


def write_pages(args: argparse.Namespace, parts: Sequence[Part]) -> None:
    """Write the page in every form that was asked for."""
    from faudit.audit.sheet import as_latex, as_markdown

    for name, form in zip(PAGES, (as_markdown, as_latex), strict=True):
        if path := getattr(args, name):
            write_page(path, form(parts))


def is_quiet(args: argparse.Namespace) -> bool:
    """Whether a page takes the place of the result on standard output."""
    return STDOUT in (args.markdown, args.latex)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def audit_runs(args: argparse.Namespace) -> int:
    from faudit.audit.audit import ControlIndex, audit, must_have_ended
    from faudit.audit.method import methods, worst
    from faudit.audit.page import appendix
    from faudit.audit.protocol import protocol
    from faudit.audit.utility import sensitivity, utility

    asked = protocol(args.protocol)
    found = [run for name in args.names for run in audited_as(name, args.runs)]
    runs = each_once(found or finished(args.runs, args.where))
    for run in runs:
        must_have_ended(run)  # before a control is trained for it
    if args.with_controls:
        make_controls(runs, data_dir=args.data_dir, jobs=args.jobs)
    beside = {store: ControlIndex(store) for store in {run.path.parent for run in runs}}
    audited, refused = [], []
    with counting("audit") as tell_count:
        tell_count(0, len(runs), "")
        for place, run in enumerate(runs, start=1):
            try:
                audited.append(audit(run, asked, data_dir=args.data_dir, beside=beside[run.path.parent]))
            except FauditError as error:
                if args.names:
                    raise
                refused.append(error)
            tell_count(place, len(runs), run.name)
    if not audited:
        raise refused[0]
    remark([*(text for one in audited for text in one.remarks), *(f"left out: {error}" for error in refused)])
    by_method = methods([(one.config, one.verdict) for one in audited])
    extra = {
        "utility": utility(audited, asked) if args.utility else None,
        "sensitivity": sensitivity(audited, asked) if args.sensitivity else None,
    }
    together = worst([one.verdict for one in audited])
    if args.markdown or args.latex:
        tables = {f"{name}_of": table for name, table in extra.items()}
        write_pages(args, appendix(audited, asked, **tables, all_settings=args.all_settings))
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
    elif not is_quiet(args):
        tell(audited, by_method, **extra)
    return VERDICTS[together]


def audited_as(name: str, store: Path) -> list[Run]:
    """The run of a name or prefix, or every run that fits a pattern."""
    return runs_named(name, store) if any(letter in name for letter in PATTERN) else [run_named(name, store)]


def finished(store: Path, where: list[str]) -> list[Run]:
    """The finished runs of a store that match the conditions. Damaged runs and copies are reported and left out."""
    from faudit.store.index import entries
    from faudit.store.run import ENDED, Run
    from faudit.store.where import conditions, matches

    found, damaged = entries(store)
    wanted = conditions(where, found)
    remark(damaged)
    matching = [entry for entry in found if matches(entry, wanted)]
    runs = [Run(Path(entry["run"])) for entry in matching if entry["status"] in ENDED]
    if len(runs) < len(matching):
        remark([f"left out: {len(matching) - len(runs)} of {len(matching)} runs, which are not finished"])
    if not runs:
        asked = f" with {' '.join(where)}" if where else ""
        raise ConfigError(f"nothing to audit: expected a store with finished runs{asked}, got none in {store}")
    return runs


def each_once(runs: list[Run]) -> list[Run]:
    """The runs without copies. A copy would count as one more seed."""
    from faudit.store.index import copies, copy_of

    twice = copies({str(run.path): run.config().run_id for run in runs})
    remark(copy_of(path, other) for path, other in twice.items())
    return list({run.path: run for run in runs if str(run.path) not in twice}.values())


def make_controls(runs: list[Run], *, data_dir: Path | None, jobs: int | None) -> None:
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
        outcome = run_all(wanted, store, data_dir=data_dir, jobs=jobs or cores())
        remark([f"{name}: {reason}" for name, reason in {**outcome.failed, **outcome.left}.items()])


def tell(audited: list[Audited], by_method: list[Method], *, utility: Table | None, sensitivity: Table | None) -> None:
    """Print verdicts with their reasons, then methods with several seeds, then the requested tables."""
    from faudit.audit.page import method_table
    from faudit.audit.utility import KEY, aligned, sensitivity_table, utility_table

    for one in audited:
        print(f"{one.run.name}: {one.verdict.headline}")
        for reason in one.verdict.reasons:
            print(f"    {reason}")
    for method in by_method:
        if len(method.seeds) > 1:
            print(f"{method.name}, {len(method.seeds)} seeds: {method.headline}")
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
    from faudit.audit.page import model_appendix
    from faudit.audit.protocol import protocol
    from faudit.watch.model import audit_model
    from faudit.watch.weights import load_weights

    asked = protocol(args.protocol)
    with here():
        model = built(args.model, "--model")
        plain = model if args.plain == args.model else built(args.plain, "--plain") if args.plain else None
        credit = named(args.credit, "--credit") if args.credit else None
    if args.weights:
        load_weights(model, args.weights)
    dataset = DATASETS[args.data](args.data_dir)
    x, y = dataset.buffer(SAMPLES if args.samples is None else args.samples)
    dtype = next((value.dtype for value in model.parameters() if value.is_floating_point()), None)
    x = dataset.normalise(x, dtype) if dtype else dataset.normalise(x)
    with counting(f"audit of {args.model}") as tell_count:
        tell_count(0, 1, "")
        audited = audit_model(
            model,
            [(x, y)],
            taps=args.taps,
            credit=credit,
            plain=plain,
            frozen=args.frozen_accuracy or (),
            protocol=args.protocol,
        )
    if args.markdown or args.latex:
        facts = {
            "model": args.model,
            "plain": args.plain or "none given",
            "taps": " ".join(args.taps),
            "credit": args.credit or "none given",
        }
        facts["data"] = f"{args.data}, SHA-256 {dataset.fingerprint()}"
        facts["weights"] = f"SHA-256 {digest_of(args.weights)}" if args.weights else "as the factory made them"
        parts = model_appendix(
            args.model, asked, taps=audited.table(), samples=audited.samples, verdict=audited.verdict, facts=facts
        )
        write_pages(args, parts)
    if args.json:
        print_json({"model": args.model, **audited.to_json()})
    elif not is_quiet(args):
        print(audited)
    return VERDICTS[audited.verdict.verdict]


def digest_of(path: Path) -> str:
    """The hash of a file."""
    with refusals(path):
        return hashlib.sha256(contents(path)).hexdigest()


def built(target: str, flag: str) -> nn.Module:
    """The model that a factory makes. Random weights come from seed 0, so they are always the same."""
    import torch
    from torch import nn

    factory = named(target, flag)
    with torch.random.fork_rng(devices=[]), one_line(f"{flag} {target}"):
        torch.manual_seed(0)
        model = factory()
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"{flag} {target}: expected a factory that returns a torch.nn.Module, got {type(model).__name__}"
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
            f"{what} failed: {error_text(error)}. Expected code that runs in the current directory, {Path.cwd().name}."
        ) from error
