"""The costly probes on a finished run's checkpoint: the last row as it would be with every probe.

Nothing is trained and nothing of the run is changed; the trainer is not even imported.
"""

from __future__ import annotations

from pathlib import Path

import torch

from faudit.audit.checks import CHECKS
from faudit.config import RunConfig
from faudit.data import DATASETS
from faudit.errors import StoreError
from faudit.experiment import build_net, build_rule, threads
from faudit.probes import PROBES
from faudit.probes.probe import Reading
from faudit.rng import generators
from faudit.store import checkpoint
from faudit.store.rows import Row
from faudit.store.run import Run


def last_row(run: Run, config: RunConfig, *, data_dir: Path | None) -> Row:
    """The run's last row with the entries of every probe, those that it lacks measured now."""
    rows = run.rows()
    if not rows:
        raise StoreError(f"{run.path} has no rows yet. Train it first: `faudit train`.")
    row = rows[-1]
    if all(name in row for check in CHECKS.values() for name in check.reads):
        return row
    if not run.checkpoint.exists():
        return row  # a log without weights: what was not measured stays so
    with threads(config.threads):  # as the run: tiny tensors only wait for a second one
        return Row(row | measured(run, config, row["epoch"], data_dir=data_dir))


def measured(run: Run, config: RunConfig, last: int, *, data_dir: Path | None) -> Row:
    """The entries of the costly probes on the checkpoint, which must stand at the last row's epoch."""
    reading, epoch = reading_of(run, config, data_dir=data_dir)
    if epoch != last:
        raise StoreError(f"{run.path}: its rows end at epoch {last}, its checkpoint at {epoch}. Resume it first.")
    full = [probe() for probe in PROBES.values() if probe.tier == "full"]
    entries = {name: value for probe in full for name, value in probe.measure(reading).items()}
    return Row({**entries, "eval_samples": len(reading.y)})  # older rows do not say


def reading_of(run: Run, config: RunConfig, *, data_dir: Path | None) -> tuple[Reading, int]:
    """The network of a run's last checkpoint on its evaluation buffer, and the epoch it stands at."""
    tensors, header = checkpoint.load_of(run)
    dataset = DATASETS[config.data](data_dir)
    began = run.environment().get("data_sha256")
    if began is not None and began != dataset.fingerprint():
        raise StoreError(
            f"the {config.data} files are not those that {run.path} was trained on. Point --data-dir at them."
        )
    dtype = getattr(torch, config.dtype)
    x, y = dataset.buffer(config.eval_size)
    net, rule, named = build_net(config, dataset), build_rule(config), generators(config.seed)
    initial = net.init(named["init"])
    # Feedback that is not there is not drawn afresh: Γ would be that of another network.
    feedback = rule.init(net, dataset.normalise(x[:1]), named["feedback"])
    params, state = (checkpoint.of_kind(tensors, kind) for kind in ("net/", "rule/"))
    for expected, came in ((initial, params), (feedback, state)):
        wanted = {name: value.to(dtype) if value.is_floating_point() else value for name, value in expected.items()}
        checkpoint.must_match(run.checkpoint, wanted, came)
    reading = Reading(net, rule, params, state, dataset.normalise(x, dtype), y, seed=config.seed, initial=initial)
    return reading, int(header["epoch"])
