"""Run the costly probes on the checkpoint of a finished run.

This trains nothing and changes nothing in the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from faudit.config import RunConfig, must_be_current
from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.errors import StoreError
from faudit.experiment import build_net, build_rule, threads
from faudit.probes import PROBES
from faudit.probes.probe import Reading, measured
from faudit.rng import generators
from faudit.rules import RULES
from faudit.store import checkpoint
from faudit.store.audits import Facts, KeptAudit
from faudit.store.rows import Row
from faudit.store.run import Run, damaged


def measure(run: Run, config: RunConfig, probes: Sequence[str], *, data_dir: Path | None) -> KeptAudit:
    """Run some costly probes on the checkpoint, which must be at the epoch of the last row."""
    last = run.rows()[-1]["epoch"]
    must_be_current(config)
    with threads(config.threads):  # as in training; for small tensors a second thread only adds waiting
        dataset = DATASETS[config.data](data_dir)
        reading, epoch = reading_of(run, config, dataset=dataset)
        if epoch != last:
            raise damaged(run.checkpoint, f"the rows end at epoch {last}, the checkpoint at {epoch}")
        entries = {name: measured(PROBES[name], reading) for name in probes}
    return KeptAudit(entries, known=facts_of(config, run.rows()[-1], data_dir=data_dir, dataset=dataset))


def facts_of(config: RunConfig, row: Row, *, data_dir: Path | None, dataset: Dataset | None = None) -> Facts:
    """The facts that a verdict needs besides the rows; loads the data if an older row lacks its sizes."""
    rule = RULES[config.rule]
    sizes: dict[str, Any] = {name: row.get(name) for name in ("test_samples", "classes", "eval_samples")}
    if None in sizes.values():
        dataset = dataset or DATASETS[config.data](data_dir)
        eval_samples = min(config.eval_size, len(dataset.test_y))
        sizes = {"test_samples": len(dataset.test_y), "classes": dataset.classes, "eval_samples": eval_samples}
    return Facts(trains_blocks=rule.trains_blocks, no_control=rule.no_control, no_credit=rule.no_credit, **sizes)


def reading_of(
    run: Run, config: RunConfig, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> tuple[Reading, int]:
    """The network of a run's last checkpoint on its evaluation buffer, and the epoch of that checkpoint."""
    must_be_current(config)
    tensors, header = checkpoint.load_of(run)
    dataset = dataset or DATASETS[config.data](data_dir)
    began = run.environment().get("data_sha256")
    if began is not None and began != dataset.fingerprint():
        raise StoreError(
            f"the {config.data} files are not those that {run.path} was trained on. Point --data-dir at them."
        )
    dataset = dataset.with_pixels(config.pixels)
    dtype = getattr(torch, config.dtype)
    x, y = dataset.buffer(config.eval_size)
    net, named = build_net(config, dataset), generators(config.seed)
    rule = build_rule(config, net)
    initial = net.init(named["init"])
    # Missing feedback is refused and not drawn again: Γ would belong to another network.
    feedback = rule.init(net, dataset.normalise(x[:1]), named["feedback"])
    params, state = (checkpoint.of_kind(tensors, kind) for kind in ("net/", "rule/"))
    for expected, came in ((initial, params), (feedback, state)):
        wanted = {name: value.to(dtype) if value.is_floating_point() else value for name, value in expected.items()}
        checkpoint.must_match(run.checkpoint, wanted, came)
    # In the order of the net and the rule, as in training: sums depend on the order, and a file has none.
    params, state = {name: params[name] for name in initial}, {name: state[name] for name in feedback}
    reading = Reading(net, rule, params, state, dataset.normalise(x, dtype), y, seed=config.seed, initial=initial)
    return reading, int(header["epoch"])
