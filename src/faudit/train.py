"""The loop: train one configuration in one run directory, top to bottom, whatever the rule.

Per epoch two things are written, in this order: the row, then the checkpoint. On resume, rows later than the
checkpoint are dropped and made again, from the same weights, generators and data position: a killed run ends as it
would have ended.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from faudit.config import RunConfig, needs_files
from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.errors import DataError, StoreError
from faudit.experiment import Experiment, prepare, refuse_unused, threads
from faudit.probes import PROBES
from faudit.probes.probe import Reading
from faudit.store import checkpoint
from faudit.store.environment import environment
from faudit.store.rows import Row, overflow
from faudit.store.run import ENDED, Run, damaged
from faudit.store.summary import summary

TEST_EVERY = 10  # epochs between two passes over the full test set
TEST_CHUNK = 2048  # samples of the test set in memory as floats at a time


def fit(config: RunConfig, runs: Path | str = "runs", data_dir: Path | str | None = None) -> Run:
    """Train a configuration to its end, or finish what an earlier call began; a finished run is returned as it is."""
    run = Run(Path(runs) / config.run_id)
    for _ in stream(config, run, data_dir=Path(data_dir) if data_dir else None):
        pass
    return run


def stream(
    config: RunConfig, run: Run, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> Iterator[Row]:
    """The same, yielding each row once it is on disk, so that the caller can show it; ``dataset`` if it is loaded."""
    with closing(writes(config, run, data_dir=data_dir, dataset=dataset)) as written:
        yield from (row for row in written if row is not None)


def writes(
    config: RunConfig, run: Run, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> Generator[Row | None, None, None]:
    """The same, yielding after whatever is written: a row, or None for a checkpoint or for the file that ends a run."""
    if run.status in ENDED:
        run.must_hold(config)
        run.must_be_whole()
        if data_dir is not None and needs_files(config):
            try:
                must_be_trained_on(run, DATASETS[config.data](data_dir), data_dir=data_dir)
            except DataError as error:
                warnings.warn(f"{run.path} is finished, whatever {data_dir} holds: {error}", stacklevel=2)
        return
    refuse_unused(config)
    experiment = prepare(config, DATASETS[config.data](data_dir) if dataset is None else dataset)
    with run.locked(), threads(config.threads):
        if run.status in ENDED:  # by another process, while we loaded the data
            return
        for remark in run.begin(config, {**environment(), "data_sha256": experiment.dataset.fingerprint()}):
            warnings.warn(f"{run.name} is resumed elsewhere: {remark}", stacklevel=2)
        started = time.perf_counter()
        for epoch in range(resume(run, experiment) + 1, config.epochs + 1):
            train_loss = one_epoch(experiment, epoch) if epoch else None
            diverged = train_loss is not None and not math.isfinite(train_loss)
            if is_logged(config, epoch) or diverged:
                row = measure(experiment, epoch, train_loss=train_loss, seconds=time.perf_counter() - started)
                run.append(row)
                yield row
                started = time.perf_counter()
                if overflow(row):
                    run.fail(failure(experiment, row))
                    return
            if epoch in config.keep_epochs:  # before the last one, which says that this one is there
                checkpoint.save(run.kept(epoch), experiment.state, epoch, ties=run.ties())
            checkpoint.save(run.checkpoint, experiment.state, epoch, ties=run.ties())
            saved = time.perf_counter()
            yield None
            started += time.perf_counter() - saved  # what the caller does meanwhile is not training
        run.finish({**summary(run.rows()), "weights_sha256": checkpoint.fingerprint(experiment.state.params)})
        yield None


def must_be_trained_on(run: Run, dataset: Dataset, *, data_dir: Path) -> None:
    """Refuse other data than a finished run was trained on."""
    found = dataset.fingerprint()
    if found != run.environment().get("data_sha256", found):
        raise StoreError(
            f"{run.path} is finished, and was trained on other {dataset.name} files than those in {data_dir} (their "
            "contents differ). Point --data-dir at the same copy, or use another --runs directory."
        )


def is_logged(config: RunConfig, epoch: int) -> bool:
    """Whether an epoch has a row."""
    return epoch % config.log_every == 0 or epoch == config.epochs or epoch in config.probe_epochs


def is_probed(config: RunConfig, epoch: int) -> bool:
    """Whether an epoch's row has the costly probes too: on request, and then also at the end."""
    return epoch in config.probe_epochs or bool(config.probe_epochs and epoch == config.epochs)


def learning_rate(config: RunConfig, epoch: int) -> float:
    """Cosine schedule, stepped per epoch: epoch 1 trains at lr, the one after the last would train at 0."""
    return 0.5 * config.lr * (1.0 + math.cos(math.pi * (epoch - 1) / config.epochs))


def one_epoch(experiment: Experiment, epoch: int) -> float:
    """One pass over the training set; returns the mean cross-entropy of the samples as they were met."""
    params, optimizer = experiment.state.params, experiment.state.optimizer
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(experiment.config, epoch)
    total = torch.zeros((), dtype=torch.float64, device=experiment.batches.device)
    for x, y in experiment.batches.epoch(experiment.state.generators):
        step = experiment.rule.step(experiment.net, params, experiment.state.rule_state, x, y)
        for name, gradient in step.grads.items():
            params[name].grad = gradient
        optimizer.step()
        optimizer.zero_grad()  # a rule may train other parameters in the next step
        total += step.loss * len(x)
    return float(total) / len(experiment.dataset.train_x)


def measure(experiment: Experiment, epoch: int, *, train_loss: float | None, seconds: float) -> Row:
    """One row: the probes that are due, on the evaluation buffer, and now and then the full test set.

    ``seconds`` is what training took since the row before (checkpoints included), ``probe_seconds`` what this row took.
    """
    started = time.perf_counter()
    row = Row(epoch=epoch)
    reading = read(experiment)
    for probe in PROBES.values():
        if probe.tier == "cheap" or is_probed(experiment.config, epoch):
            row.update(probe().measure(reading))
    due = epoch % TEST_EVERY == 0 or epoch == experiment.config.epochs
    row["test_acc"] = test_accuracy(experiment) if due else None
    row["eval_samples"], row["test_samples"] = len(reading.y), len(experiment.dataset.test_y)
    row["classes"] = experiment.net.classes
    row["train_loss"] = train_loss
    row["seconds"] = round(seconds, 4)
    row["probe_seconds"] = round(time.perf_counter() - started, 4)
    return row


def read(experiment: Experiment) -> Reading:
    """The network as it stands, on the evaluation buffer."""
    data, batches, state = experiment.dataset, experiment.batches, experiment.state
    x, y = data.buffer(experiment.config.eval_size)
    x, y = data.normalise(x.to(batches.device), batches.dtype), y.to(batches.device)
    return Reading(
        experiment.net,
        experiment.rule,
        state.params,
        state.rule_state,
        x,
        y,
        seed=experiment.config.seed,
        initial=experiment.initial,
    )


@torch.no_grad()
def test_accuracy(experiment: Experiment) -> float:
    """Share of the full test set that is classified right."""
    data, batches = experiment.dataset, experiment.batches
    right = 0
    for x, y in zip(torch.split(data.test_x, TEST_CHUNK), torch.split(data.test_y, TEST_CHUNK), strict=True):
        logits = experiment.net.forward(experiment.state.params, data.normalise(x.to(batches.device), batches.dtype))
        right += int((logits.argmax(dim=1) == y.to(batches.device)).sum())
    return right / len(data.test_x)


def resume(run: Run, experiment: Experiment) -> int:
    """The last epoch that is done, −1 for none, with the experiment put where it was then."""
    if not run.checkpoint.exists():
        run.keep_rows(until=-1)
        return -1
    epoch = checkpoint.restore(run, experiment.state)
    there = {row["epoch"] for row in run.rows()}
    missing = [due for due in range(epoch + 1) if is_logged(experiment.config, due) and due not in there]
    if missing:
        raise StoreError(
            f"{run.rows_file} lacks the row of epoch {missing[0]} though the checkpoint stands at epoch {epoch}. "
            f"Put the file back, or delete {run.path} to train the run again."
        )
    if lost := [due for due in experiment.config.keep_epochs if due <= epoch and not run.kept(due).exists()]:
        problem = f"the checkpoint that keep-epochs asks for is gone, and {run.checkpoint.name} stands at epoch {epoch}"
        raise damaged(run.kept(lost[0]), problem)
    return epoch


def failure(experiment: Experiment, row: Row) -> dict[str, Any]:
    """Where a run diverged: the epoch, the first entry that overflowed, and the first tap that holds such a number."""
    found = overflow(row)
    assert found is not None, "only a row that overflowed fails a run"
    reading = read(experiment)
    taps = [tap for tap, h in enumerate(reading.taps) if not bool(h.isfinite().all())]
    if not taps:  # the states are fine: a gradient on its way back is not, so the last tap comes first
        taps = [tap for tap, g in enumerate(reading.gradients) if not bool(g.isfinite().all())][::-1]
    tap = taps[0] if taps else found[1]
    place = f"at tap {tap}" if tap is not None else "in the training loss"
    reason = f"diverged: {found[0]} overflowed {place} after epoch {row['epoch']}"
    return {"reason": reason, "epoch": row["epoch"], "entry": found[0], "tap": tap}
