"""Time one CIFAR-10 epoch of each net in faudit, in a plain PyTorch trainer and on the roofline, side by side.

The candidates alternate in one process: the plain trainer on pictures and on tensors, faudit eager and, where the
config has that setting, compiled, and the roofline (``roofline.py``). A whole epoch of ViT-Mini takes minutes. So some
steps of each candidate are timed and scaled to the samples of an epoch. Only ratios of one run are worth reporting.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from faudit.bench.roofline import roofline
from faudit.bench.timing import (
    Keep,
    Work,
    checkout_module,
    in_turns,
    machine,
    must_be_some,
    nowhere,
    pictures,
    ratio,
    seconds,
    told,
)
from faudit.config import RUN, RunConfig
from faudit.data.dataset import Dataset
from faudit.experiment import Experiment, prepare, threads
from faudit.train import measure, one_epoch

RULES_TIMED = ("bp", "dfa")
BATCH = 128
PLAIN = ("plain", "plain_tensors")  # the plain trainer on pictures and on tensors


@dataclass(frozen=True)
class Steps:
    """How many steps of a net are timed at a time, and in how many rounds."""

    ours: int  # of faudit and of the roofline
    plain: int  # of the plain trainer
    rounds: int = 4  # at most: a step of a large net is long, and its times differ little
    probes: int = 4  # rows of probes that are timed; the first of several warms up

    def at_most(self, steps: int) -> Steps:
        """As many, or this number if it is smaller."""
        return replace(self, ours=min(self.ours, steps), plain=min(self.plain, steps))


NETS = {
    "resmlp": Steps(ours=391, plain=60),
    "vit": Steps(ours=2, plain=1, rounds=3, probes=1),  # a row takes as long as a dozen steps
    "cnn": Steps(ours=6, plain=3, rounds=4, probes=1),
}


def train_speed(
    *,
    data_dir: Path | None,
    threads_used: int,
    repeats: int,
    steps: Mapping[str, Steps] = NETS,
    against: Sequence[str] = PLAIN,
    keep: Keep = nowhere,
) -> dict[str, Any]:
    """Seconds per epoch of every candidate for each net and rule, the ratios, and what the probes add.

    ``keep`` gets what there is after each net and rule.
    """
    must_be_some(repeats=repeats, threads=threads_used, steps=min(few.plain for few in steps.values()))
    dataset = pictures(data_dir)
    plain = checkout_module("plain_trainer") if against else None
    timed: dict[str, dict[str, Any]] = {}
    result = {
        "what": f"one CIFAR-10 epoch, batch {BATCH}",
        "data": dataset.name,
        "samples": len(dataset.train_x),
        "repeats": repeats,
        "nets": timed,
    }
    with threads(threads_used):
        for net, few in steps.items():
            for rule in RULES_TIMED:
                config = RunConfig(net=net, rule=rule, data="cifar10", threads=threads_used)
                entry = one_case(config, dataset, steps=few, repeats=repeats, plain=plain, against=against)
                timed.setdefault(net, {})[rule] = entry
                keep({**result, "machine": machine(threads_used)})
    return {**result, "machine": machine(threads_used)}


def one_case(
    config: RunConfig, dataset: Dataset, *, steps: Steps, repeats: int, plain: ModuleType | None, against: Sequence[str]
) -> dict[str, Any]:
    """The candidates of one net and rule."""
    ours, warm_up = faudits(config, dataset, steps.ours)
    bound = roofline(ours["faudit"].net, config.rule, batch=BATCH)
    with plain_epochs(plain, config, dataset, steps.plain, against=against) as theirs:
        works: dict[str, Work] = {**theirs}
        works |= {name: partial(one_epoch, one, 1) for name, one in ours.items()}
        works["roofline"] = partial(bound.run, steps.ours)  # it is warm: its pieces were tried
        for work in theirs.values():
            work()  # warm up
        times = in_turns(works, repeats=min(repeats, steps.rounds), title=f"{config.net} {config.rule}")
    row = partial(measure, ours["faudit"], 1, train_loss=None, seconds=0.0)
    if steps.probes > 1:
        row()  # warm up
    probes = [seconds(row) for _ in range(min(repeats, steps.probes))]
    whole = len(dataset.train_x)
    scaled = {
        name: [value * whole / min(whole, BATCH * (steps.plain if name in theirs else steps.ours)) for value in values]
        for name, values in times.items()
    }
    return {
        "steps": {name: steps.plain if name in theirs else steps.ours for name in scaled},
        "seconds": {name: [round(value, 3) for value in values] for name, values in scaled.items()},
        "warm_up_seconds": warm_up,
        **compared(scaled, probes),
        "roofline_operations": sum(piece.operations for piece in bound.pieces),
        "roofline_ways": bound.ways,
    }


def compared(times: dict[str, list[float]], probes: list[float]) -> dict[str, Any]:
    """Each candidate over the roofline, the plain trainers over faudit, and the probes' share of a logged epoch."""
    ours = [name for name in times if name.startswith("faudit")]
    row = statistics.median(probes)
    return {
        "over_roofline": {name: ratio(times[name], times["roofline"]) for name in times if name != "roofline"},
        "faster": {name: {own: ratio(times[name], times[own]) for own in ours} for name in times if name in PLAIN},
        "probe_seconds": [round(value, 4) for value in probes],
        "probe_share": round(row / (row + statistics.median(times["faudit"])), 4),
    }


def faudits(config: RunConfig, dataset: Dataset, steps: int) -> tuple[dict[str, Experiment], dict[str, float]]:
    """faudit eager and, if the config has that setting, compiled; and the seconds of the first epoch of each."""
    configs = {"faudit": config}
    if "compile" in RUN:
        configs["faudit_compiled"] = config.with_(compile=True)
    made, warm_up = {}, {}
    for name, one in configs.items():
        made[name] = prepare(one.with_(train_size=min(steps * BATCH, len(dataset.train_x))), dataset)
        warm_up[name] = round(seconds(partial(one_epoch, made[name], 1)), 3)
    return made, warm_up


@contextmanager
def plain_epochs(
    plain: ModuleType | None, config: RunConfig, dataset: Dataset, steps: int, *, against: Sequence[str]
) -> Iterator[dict[str, Callable[[], object]]]:
    """Some steps of the plain trainer on the kinds of samples that are asked for. Its workers end with the context."""
    if plain is None:
        yield {}
        return
    x, y = dataset.train_x[: steps * BATCH], dataset.train_y[: steps * BATCH]
    net = plain.NETS[config.net]()
    trainer = plain.PlainBP(net) if config.rule == "bp" else plain.PlainDFA(net, dataset.normalise(x[:2]))
    kinds = {"plain": plain.Pictures, "plain_tensors": plain.Tensors}
    loaders = {name: plain.loader(kinds[name](x, y)) for name in against}
    try:
        yield {name: partial(plain.epoch, trainer, loader) for name, loader in loaders.items()}
    finally:
        for loader in loaders.values():
            loader._iterator = None  # the workers stop when their iterator is gone


def roofline_speed(
    *, data_dir: Path | None, threads_used: int, repeats: int, steps: Mapping[str, Steps] = NETS, keep: Keep = nowhere
) -> dict[str, Any]:
    """The same without the plain trainer."""
    return train_speed(
        data_dir=data_dir, threads_used=threads_used, repeats=repeats, steps=steps, against=(), keep=keep
    )


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    out = [
        f"{result['what']}, data {result['data']}, {result['machine']['threads']} threads, {result['repeats']} rounds"
    ]
    for net, rules in result["nets"].items():
        for rule, entry in rules.items():
            middle = {name: statistics.median(values) for name, values in entry["seconds"].items()}
            out.append(
                f"{net} {rule}: roofline {middle['roofline']:.2f} s, probes {entry['probe_share']:.1%} of an epoch"
            )
            for name, over in entry["over_roofline"].items():
                beside = "".join(
                    f"; {own.replace('_', ' ')} is {faster['median']:.1f}× faster"
                    for own, faster in entry["faster"].get(name, {}).items()
                )
                out.append(
                    f"    {name.replace('_', ', '):<18}{middle[name]:8.2f} s, {told(over)} × the roofline{beside}"
                )
    return out


def experiment(rule: str, dataset: Dataset, threads_used: int) -> Experiment:
    """A ResMLP of CIFAR-10's size."""
    return prepare(RunConfig(rule=rule, data="cifar10", threads=threads_used), dataset)
