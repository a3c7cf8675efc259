"""The ratios that CI holds: a change that makes training, probes or the command line slower fails a test.

Every entry is a ratio of two works that alternate in short rounds on one thread, in processor time, which a loaded
machine changes little. The median of the rounds may be ``MARGIN`` times the reference. The operations of a step are
counted, not timed: a product that no step needs is found on any machine.
"""

from __future__ import annotations

import resource
import statistics
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from faudit.bench.roofline import Attention, pieces, roofline
from faudit.bench.startup import BARE, COMMANDS, started
from faudit.bench.timing import Work, in_turns, must_be_some, noise
from faudit.config import RunConfig
from faudit.data.dataset import Dataset
from faudit.experiment import Experiment, prepare, threads
from faudit.store.environment import environment
from faudit.train import measure, one_epoch

MARGIN = 1.5  # of a time; other processors share the time out differently between products and the rest
REFERENCE = {  # measured on two cores of an AMD EPYC with AVX-512, one thread
    "bp step / roofline": 1.42,
    "dfa step / roofline": 1.52,
    "dfa step / bp step": 1.07,
    "probes / bp step": 6.8,
    "faudit --help / python": 14.5,
}
STEPS, BATCH = 6, 128


def guarded(*, repeats: int = 7) -> dict[str, Any]:
    """Every ratio with its limit, and the names of those above it."""
    must_be_some(repeats=repeats)
    with threads(1):
        found = {**counts(), **times(repeats), **starts(repeats)}
    limits = {name: 1.0 if name not in REFERENCE else round(REFERENCE[name] * MARGIN, 3) for name in found}
    ratios = {name: {"ratio": round(value, 3), "limit": limits[name]} for name, value in found.items()}
    above = [name for name, entry in ratios.items() if entry["ratio"] > entry["limit"]]
    return {"what": "ratios that CI holds", "repeats": repeats, "ratios": ratios, "above": above,
            "machine": environment()}  # fmt: skip


def ours(rule: str, dataset: Dataset, *, net: str = "resmlp", steps: int = STEPS) -> Experiment:
    """An experiment whose epoch has a few steps."""
    config = RunConfig(net=net, rule=rule, data="cifar10", batch_size=BATCH, train_size=steps * BATCH)
    return prepare(config, dataset)


def counts() -> dict[str, float]:
    """The counted operations of a step over those of its roofline; attention is not counted by torch on a processor."""
    dataset, found = noise(1200), {}
    for net in ("resmlp", "cnn"):
        for rule in ("bp", "dfa"):
            trained = ours(rule, dataset, net=net, steps=1)
            found[f"operations, {net} {rule}"] = counted_operations(trained) / needed_operations(trained)
    return found


def counted_operations(trained: Experiment) -> int:
    """The operations of all products of an epoch, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        one_epoch(trained, 1)
    return int(counter.get_total_flops())


def needed_operations(trained: Experiment) -> int:
    """The operations of the same steps on the roofline, attention apart."""
    needed = pieces(trained.net, trained.config.rule, batch=BATCH)
    steps = trained.batches.samples // BATCH
    return steps * sum(piece.operations for piece in needed if not isinstance(piece, Attention))


def times(repeats: int) -> dict[str, float]:
    """Steps against the roofline and each other, and a row of probes against a step."""
    dataset = noise(6000)
    trained = {rule: ours(rule, dataset) for rule in ("bp", "dfa")}
    works: dict[str, Work] = {rule: partial(one_epoch, one, 1) for rule, one in trained.items()}
    works |= {f"{rule} roofline": partial(roofline(one.net, rule, batch=BATCH).run, STEPS) for rule, one in
              trained.items()}  # fmt: skip
    works["probes"] = partial(measure, trained["bp"], 1, train_loss=None, seconds=0.0)
    for work in works.values():
        work()  # warm up
    found = in_turns(works, repeats=repeats, title="guard", clock=time.process_time)
    return {
        "bp step / roofline": middle(found["bp"], found["bp roofline"]),
        "dfa step / roofline": middle(found["dfa"], found["dfa roofline"]),
        "dfa step / bp step": middle(found["dfa"], found["bp"]),
        "probes / bp step": STEPS * middle(found["probes"], found["bp"]),
    }


def starts(repeats: int) -> dict[str, float]:
    """The start of the command line against that of Python, both in new processes."""
    name = "faudit --help"
    with TemporaryDirectory(prefix="faudit-bench-") as folder:
        works = {command: partial(started, COMMANDS[command], Path(folder)) for command in (BARE, name)}
        works[name]()  # compiles the modules
        found = in_turns(works, repeats=repeats, title="start", clock=children_time)
    return {f"{name} / {BARE}": middle(found[name], found[BARE])}


def children_time() -> float:
    """The processor seconds of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def middle(these: list[float], those: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(one / other for one, other in zip(these, those, strict=True))


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [f"{result['what']}, one thread, processor time, {result['repeats']} rounds"]
    for name, entry in result["ratios"].items():
        mark = "  above its limit" if name in result["above"] else ""
        out.append(f"    {name:<26}{entry['ratio']:7.3f}, at most {entry['limit']:.3f}{mark}")
    return out
