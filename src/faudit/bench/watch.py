"""Time what watching costs: one logged epoch against an epoch of training, one ``w.compare`` against one step.

The network is a CIFAR-10 ResMLP (d 256, L 4) as a plain ``nn.Module``. The epoch is faudit's own, which is faster than
a plain PyTorch loop, so the share is an upper bound. A row holds norms, gradients, growth, accuracy and loss on 1024
samples. A step is forward, backward and AdamW on a batch of 128. A step and a comparison are timed in turns, hundreds
of pairs in one process, each time in the other order. The result is the median of the ratios with its quartiles, of the
time on the clock and of the processor's time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F

from faudit.bench.timing import checkout_module, machine, must_be_some, pictures, ratio, seconds
from faudit.bench.train import experiment
from faudit.experiment import threads
from faudit.store.counts import counted
from faudit.train import one_epoch
from faudit.watch.loop import watch

BATCH, BUFFER, ROWS, STEPS = 128, 1024, 5, 50  # rows and pairs of a step and a comparison, for each epoch


def watch_speed(*, data_dir: Path | None, threads_used: int, repeats: int) -> dict[str, Any]:
    """Seconds of an epoch, of a logged row, of a step and of a comparison, with the ratios."""
    must_be_some(repeats=repeats, threads=threads_used)
    dataset = pictures(data_dir)
    x, y = dataset.buffer(BUFFER)
    batch = dataset.normalise(dataset.train_x[:BATCH]), dataset.train_y[:BATCH]
    model = checkout_module("plain_trainer").PlainResMLP()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    times: dict[str, list[float]] = {name: [] for name in ("epoch", "log", "step", "compare")}
    busy: dict[str, list[float]] = {name: [] for name in times}
    with threads(threads_used), TemporaryDirectory() as runs:
        trained = experiment("bp", dataset, threads_used)
        one_epoch(trained, 1)  # warm up
        watching = watch(
            model,
            eval_batch=(dataset.normalise(x), y),
            taps="blocks.*",
            runs=runs,
            name="bench",
            light=True,
            strict=True,
        )
        with watching as w:
            compare = partial(w.compare, *batch)
            pair: list[tuple[str, Callable[[], object]]] = [("step", step), ("compare", compare)]
            for _ in range(3):  # warm up
                step()
                compare()
            for repeat in counted(range(repeats), lambda place: f"repeat {place + 1}"):
                times["epoch"].append(seconds(partial(one_epoch, trained, 1)))
                for row in range(ROWS):
                    times["log"].append(seconds(partial(w.log, 1 + ROWS * repeat + row)))
                for place in range(STEPS):
                    for name, work in pair if place % 2 else reversed(pair):
                        started = time.process_time()
                        times[name].append(seconds(work))
                        busy[name].append(time.process_time() - started)
    return {
        "what": "watching a CIFAR-10 ResMLP (d 256, L 4, 1024 samples, batch 128)",
        "data": dataset.name,
        "threads": threads_used,
        "repeats": repeats,
        "seconds": {name: round(statistics.median(values), 5) for name, values in times.items()},
        "pairs": len(times["step"]),
        "log_share": round(statistics.median(times["log"]) / statistics.median(times["epoch"]), 4),
        "compare_over_step": ratio(times["compare"], times["step"]),
        "compare_quartiles": quartiles(times["compare"], times["step"]),
        "compare_processor": quartiles(busy["compare"], busy["step"]),
        "machine": machine(threads_used),
    }


def quartiles(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The quartiles of the ratios of times that were taken in turns."""
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    return [round(value, 3) for value in statistics.quantiles(ratios, n=4)]


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    middle, wall, busy = result["seconds"], result["compare_quartiles"], result["compare_processor"]
    return [
        f"{result['what']}, data {result['data']}, {result['threads']} threads, {result['repeats']} epochs",
        f"one epoch {middle['epoch']:.2f} s, one logged row {middle['log']:.3f} s: {result['log_share']:.1%} of the "
        "epoch",
        f"one step {1000 * middle['step']:.1f} ms, one comparison {1000 * middle['compare']:.1f} ms: "
        f"{wall[1]:.2f}× a step (quartiles {wall[0]:.2f}–{wall[2]:.2f}, {result['pairs']} pairs)",
        f"    in the processor's time {busy[1]:.2f}× (quartiles {busy[0]:.2f}–{busy[2]:.2f})",
    ]
