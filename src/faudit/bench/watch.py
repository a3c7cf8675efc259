"""Time what watching costs: one logged epoch against an epoch of training, one ``w.compare`` against one step.

The network is a CIFAR-10 ResMLP (d 256, L 4) as a plain ``nn.Module``. The epoch is faudit's own, which is faster than
a plain PyTorch loop, so the share is an upper bound. A row holds norms, gradients, growth, accuracy and loss on 1024
samples. A step is forward, backward and AdamW on a batch of 128. Each is timed in turns in one process.
"""

from __future__ import annotations

import statistics
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

BATCH, BUFFER, STEPS = 128, 1024, 20


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
            step()
            w.compare(*batch)
            for epoch in counted(range(1, repeats + 1), lambda epoch: f"repeat {epoch}"):
                times["epoch"].append(seconds(partial(one_epoch, trained, 1)))
                times["log"].append(seconds(partial(w.log, epoch)))
                for _ in range(STEPS):
                    times["step"].append(seconds(step))
                    times["compare"].append(seconds(partial(w.compare, *batch)))
    return {
        "what": "watching a CIFAR-10 ResMLP (d 256, L 4, 1024 samples, batch 128)",
        "data": dataset.name,
        "threads": threads_used,
        "repeats": repeats,
        "seconds": {name: round(statistics.median(values), 5) for name, values in times.items()},
        "log_share": round(statistics.median(times["log"]) / statistics.median(times["epoch"]), 4),
        "compare_over_step": ratio(times["compare"], times["step"]),
        "machine": machine(threads_used),
    }


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    middle, more = result["seconds"], result["compare_over_step"]
    return [
        f"{result['what']}, data {result['data']}, {result['threads']} threads, {result['repeats']} epochs",
        f"one epoch {middle['epoch']:.2f} s, one logged row {middle['log']:.3f} s: {result['log_share']:.1%} of the "
        "epoch",
        f"one step {1000 * middle['step']:.1f} ms, one comparison {1000 * middle['compare']:.1f} ms: "
        f"{more['median']:.2f}× a step ({more['least']:.2f}–{more['most']:.2f})",
    ]
