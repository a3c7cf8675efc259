"""Time one training step of every rule against BP's, and against BioTorch where it is installed.

All of them alternate in one process on the same random batches, a few steps at a time. A step is that of the training
loop: batch, rule, optimizer and what follows the update. BioTorch takes its batches from the same source, with the same
optimizer. Only ratios measured in one run are worth reporting: of the medians, with the quartiles of all rounds.
"""

from __future__ import annotations

import importlib.util
import io
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import torch
from torch import Tensor

from faudit.bench.timing import checkout_module, must_be_some, seconds
from faudit.config import RunConfig
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.experiment import Experiment, prepare, threads
from faudit.rules import RULES
from faudit.store.counts import counted
from faudit.store.environment import environment
from faudit.train import one_epoch

BATCH = 128
NETS: dict[
    str, tuple[tuple[int, int, int], dict[str, Any]]
] = {  # what is timed: the shape of a sample, and the settings of the run
    "mlp": ((1, 28, 28), {"net": "mlp", "sizes": (500, 500), "activation": "relu"}),
    "resmlp": ((3, 32, 32), {"net": "resmlp"}),
    "lenet": ((1, 28, 28), {"net": "lenet"}),
}
REFERENCE, BIOTORCH = "bp", "biotorch "


def rules_speed(*, threads_used: int, repeats: int, steps: int = 4, only: Sequence[str] = ()) -> dict[str, Any]:
    """Seconds per step of every rule, or of some rules, on every net that it serves, over those of BP."""
    must_be_some(repeats=repeats, threads=threads_used)
    for rule in only:
        RULES[rule]  # raises if there is none
    rules = [REFERENCE, *only] if only else [rule for rule in RULES if rule not in RULES.controls]
    with threads(threads_used):
        nets = {name: one_net(name, rules, repeats=repeats, steps=steps, threads_used=threads_used) for name in NETS}
    return {
        "what": f"one training step, batch {BATCH}",
        "threads": threads_used,
        "repeats": repeats,
        "steps": steps,
        "nets": nets,
        "environment": environment(),
    }


def one_net(name: str, rules: Sequence[str], *, repeats: int, steps: int, threads_used: int) -> dict[str, Any]:
    """The times of some rules on one net."""
    shape, settings = NETS[name]
    dataset = noise(shape, samples=BATCH * steps)
    work: dict[str, Callable[[], object]] = {}
    for rule in rules:
        try:
            config = RunConfig(rule=rule, no_augment=True, batch_size=BATCH, threads=threads_used, **settings)
            work[rule] = partial(one_epoch, prepare(config, dataset), 1)
        except ConfigError:
            continue  # the rule does not serve this net
    if set(RULES.declaring) <= set(rules):  # beside all rules, not beside a few
        work |= biotorch(name, dataset, threads_used=threads_used)
    for warm in work.values():
        warm()
    times: dict[str, list[float]] = {rule: [] for rule in work}
    for _ in counted(range(repeats), lambda place: f"{name}, round {place + 1}"):
        for rule, run in work.items():
            times[rule].append(seconds(run) / steps)
    found = {rule: compared(times[rule], times[REFERENCE]) for rule in work}
    for rule in work:
        if (theirs := BIOTORCH + rule) in times:
            found[rule]["biotorch"] = compared(times[rule], times[theirs])
    return found


def compared(times: list[float], reference: list[float]) -> dict[str, Any]:
    """The median time of a step, its ratio to the median of the reference, and the quartiles of the rounds' ratios."""
    ratios = [own / other for own, other in zip(times, reference, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "milliseconds": round(1000 * statistics.median(times), 3),
        "ratio": round(statistics.median(times) / statistics.median(reference), 3),
        "quartiles": [round(low, 3), round(high, 3)],
    }


def biotorch(name: str, dataset: Dataset, *, threads_used: int) -> dict[str, Callable[[], object]]:
    """The same work in BioTorch, by "biotorch <rule>"; empty if it is not installed or lacks the net."""
    if importlib.util.find_spec("biotorch") is None or name == "resmlp":
        return {}
    theirs = checkout_module("biotorch_trainer")
    settings = NETS[name][1]
    source = prepare(
        RunConfig(rule=REFERENCE, no_augment=True, batch_size=BATCH, threads=threads_used, **settings), dataset
    )
    found: dict[str, Callable[[], object]] = {}
    for rule, mode in theirs.MODES.items():
        module = theirs.lenet(10) if name == "lenet" else theirs.mlp(784, settings["sizes"], 10)
        with redirect_stdout(io.StringIO()):  # BioTorch prints what it converts; our stdout holds the result alone
            train = theirs.trainer(module, mode, 10)
        found[BIOTORCH + rule] = partial(epoch_of, train, source)
    return found


def epoch_of(train: Callable[[Iterator[tuple[Tensor, Tensor]]], None], source: Experiment) -> None:
    """One epoch of another trainer on the batches that our rules get."""
    train(source.batches.epoch(source.state.generators))


def noise(shape: tuple[int, int, int], *, samples: int) -> Dataset:
    """Random pixels and labels."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(256, (samples, *shape), generator=draw, dtype=torch.uint8)
    y = torch.randint(10, (samples,), generator=draw)
    channels = shape[0]
    return Dataset("noise", x, y, x[:BATCH], y[:BATCH], 10, (0.5,) * channels, (0.3,) * channels)


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [f"{result['what']}, {result['threads']} threads, {result['repeats']} × {result['steps']} steps each"]
    for net, timed in result["nets"].items():
        out.append(f"{net}: bp {timed[REFERENCE]['milliseconds']:.2f} ms")
        for rule, entry in timed.items():
            if rule != REFERENCE:
                beside = f"; {times_of(entry['biotorch'])} BioTorch's" if "biotorch" in entry else ""
                out.append(f"    {rule:<24}{times_of(entry)} bp{beside}")
    return out


def times_of(entry: dict[str, Any]) -> str:
    low, high = entry["quartiles"]
    return f"{entry['ratio']:6.2f} × ({low:.2f}–{high:.2f})"
