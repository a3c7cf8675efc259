"""What ``faudit audit`` does: judge runs of a store or, with ``--model``, a model of somebody else's code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError
from faudit.registry import nearest, unknown
from faudit.verbs import print_json, remark, run_named

if TYPE_CHECKING:
    from torch import nn

SAMPLES = 256
OF_MODEL = ("weights", "taps", "data", "samples", "credit", "frozen_accuracy")  # flags that mean nothing to a run


def run_audit(args: argparse.Namespace) -> int:
    if args.model is None:
        strays = [flag(name) for name in OF_MODEL if getattr(args, name) is not None]
        if strays:
            raise ConfigError(f"{strays[0]} is for a model of your own: expected --model too, got runs only")
        if not args.names:
            raise ConfigError("nothing to audit: expected RUN names, or --model package.module:factory")
        return audit_runs(args)
    if args.names or args.with_controls:
        came = args.names[0] if args.names else "--with-controls"
        raise ConfigError(f"--model and runs exclude one another: expected one of them, got {came!r} too")
    for name in ("taps", "data"):
        if getattr(args, name) is None:
            raise ConfigError(f"--model needs {flag(name)} too: expected it, got none. See `faudit audit --help`.")
    return audit_factory(args)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def audit_runs(args: argparse.Namespace) -> int:
    from faudit.audit.audit import EXIT_CODES, audit, control_of, worst
    from faudit.audit.protocol import protocol
    from faudit.audit.template import page
    from faudit.store import write_whole
    from faudit.sweep.local import cores, run_all

    asked = protocol(args.protocol)
    runs = [run_named(name, args.runs) for name in args.names]
    if args.with_controls:
        for store in dict.fromkeys(run.path.parent for run in runs):
            wanted = [control_of(run.config()) for run in runs if run.path.parent == store]
            outcome = run_all(wanted, store, data_dir=args.data_dir, jobs=cores())
            remark([f"{name}: {reason}" for name, reason in {**outcome.failed, **outcome.left}.items()])
    audited = [audit(run, asked, data_dir=args.data_dir) for run in runs]
    together = worst([one.verdict for one in audited])
    if args.markdown:
        write_whole(args.markdown, page(audited).encode())
    if args.json:
        print_json({"protocol": asked.name, "verdict": together, "runs": [one.to_json() for one in audited]})
    else:
        for one in audited:
            print(f"{one.run.name}: {one.verdict.verdict}")
            for reason in one.verdict.reasons:
                print(f"    {reason}")
    return EXIT_CODES[together]


def audit_factory(args: argparse.Namespace) -> int:
    """Build the model, fill it, measure it on a dataset's test samples, print."""
    if args.data not in DATASETS:
        raise ConfigError(unknown("dataset", args.data, list(DATASETS)))
    if args.samples == 0:
        raise ConfigError("--samples: expected at least 1, got 0")
    from faudit.audit.audit import EXIT_CODES
    from faudit.audit.foreign import audit_model
    from faudit.audit.protocol import protocol
    from faudit.store import write_whole
    from faudit.weights import load_weights

    protocol(args.protocol)
    model = built(args.model)
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
        credit=named(args.credit, "--credit") if args.credit else None,
        frozen=args.frozen_accuracy or (),
        protocol=args.protocol,
    )
    if args.markdown:
        write_whole(args.markdown, audited.page(args.model).encode())
    if args.json:
        print_json({"model": args.model, **audited.to_json()})
    else:
        print(audited)
    return EXIT_CODES[audited.verdict.verdict]


def built(target: str) -> nn.Module:
    """The model that a factory makes; weights that it draws at random come from seed 0, so they are always the same."""
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
    """The callable that "package.module:name" means; the current directory is importable, as with ``python -m``."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{flag}: expected package.module:name, got {target!r}")
    with here(), one_line(f"{flag} {target}"):
        module = importlib.import_module(module_name)
    found = getattr(module, name, None)
    if not callable(found):
        raise ConfigError(f"{flag} {target}: {module_name} has no callable {name!r}{nearest(name, vars(module))}")
    return found


@contextmanager
def here() -> Iterator[None]:
    """The current directory first on the path of imports."""
    directory = os.getcwd()
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(directory)


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Somebody else's code: whatever it raises is told on one line, with our own refusals as they are."""
    from faudit.nets.foreign import told

    try:
        yield
    except FauditError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} failed: {told(error)}. Expected code that runs in {Path.cwd().name}/.") from error
