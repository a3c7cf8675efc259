"""The training loop: it trains one configuration in one run directory, with any rule.

Each epoch writes its row first and then its checkpoint. A resumed run drops the rows that are later than the checkpoint
and continues from the saved weights, generators and data position. So a run that was killed ends with the same result
as one that was not.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from faudit.config import RunConfig, needs_files
from faudit.data import DATASETS
from faudit.data.dataset import Dataset
from faudit.errors import DataError, Diverged, StoreError
from faudit.experiment import Experiment, prepare, refuse_unused, repeatable, threads
from faudit.probes import PROBES
from faudit.probes.probe import Reading, measured
from faudit.store import answers, checkpoint
from faudit.store.environment import environment, peak_bytes
from faudit.store.progress import shown
from faudit.store.rows import Row, overflow
from faudit.store.run import ENDED, Run, damaged, must_not_begin_again
from faudit.store.summary import summary
from faudit.store.watched import refuse_watched

TEST_EVERY = 10  # epochs between two passes over the full test set
TEST_CHUNK = 2048  # samples of the test set in memory as floats at a time


@dataclass(frozen=True)
class Due:
    """An epoch that a run must be trained for before it goes on."""

    experiment: Experiment
    epoch: int


@dataclass(frozen=True)
class Trained:
    """What an epoch gave: the mean loss, and the seconds that it took."""

    loss: float
    seconds: float


def fit(
    config: RunConfig, runs: Path | str = "runs", data_dir: Path | str | None = None, *, progress: bool = False
) -> Run:
    """Train a configuration to its end, resuming a run that was interrupted; returns a finished run unchanged.

    With ``progress``, each row is shown on stderr: a bar on a terminal, a line in a notebook or a file.
    """
    run = Run(Path(runs) / config.run_id)
    must_not_begin_again(config, Path(runs))
    rows = stream(config, run, data_dir=Path(data_dir) if data_dir else None)
    if progress:
        shown(rows, total=config.epochs, title=config.rule)
    else:
        for _ in rows:
            pass
    return run


def stream(
    config: RunConfig, run: Run, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> Iterator[Row]:
    """Like ``fit``, but yields each row once it is on disk; pass ``dataset`` if it is already loaded."""
    with closing(writes(config, run, data_dir=data_dir, dataset=dataset)) as written:
        yield from (row for row in written if row is not None)


def writes(
    config: RunConfig, run: Run, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> Generator[Row | None, None, None]:
    """Like ``stream``, but also yields None after each checkpoint and after the file that ends the run."""
    with closing(life(config, run, data_dir=data_dir, dataset=dataset)) as steps:
        for said in steps:
            while isinstance(said, Due):
                said = trained(said, steps)
            yield said


def trained(due: Due, steps: Generator[Row | Due | None, Trained | None, None]) -> Row | Due | None:
    """Train the epoch that a run waits for, and return what the run yields next."""
    began = time.perf_counter()
    try:
        loss = one_epoch(due.experiment, due.epoch)
    except Diverged as error:
        return steps.throw(error)
    return steps.send(Trained(loss, time.perf_counter() - began))


def life(
    config: RunConfig, run: Run, *, data_dir: Path | None = None, dataset: Dataset | None = None
) -> Generator[Row | Due | None, Trained | None, None]:
    """All that a run does but training: it yields each epoch that is due, and must be sent what that epoch gave.

    Besides, it yields what ``writes`` yields. So the caller decides how an epoch is trained.
    """
    refuse_watched(config)
    if run.status in ENDED:
        run.must_hold(config)
        run.must_be_whole()
        if data_dir is not None and needs_files(config):
            try:
                must_be_trained_on(run, DATASETS[config.data](data_dir), data_dir=data_dir)
            except DataError as error:
                remark = f"{run.path} is finished and needs no data, but {data_dir} cannot be read: {error}"
                warnings.warn(remark, stacklevel=2)
        return
    refuse_unused(config)
    experiment = prepare(config, DATASETS[config.data](data_dir) if dataset is None else dataset)
    with run.locked(), threads(config.threads), repeatable(config.device):
        if run.status in ENDED:  # another process finished it while this one loaded the data
            return
        data = experiment.dataset
        facts = {**environment(), "data_sha256": data.fingerprint(), "data": data.about()}
        started = time.perf_counter()  # compiling is part of the time of the first row
        for remark in run.begin(config, facts | experiment.facts):
            warnings.warn(f"{run.name} is resumed in another environment: {remark}", stacklevel=2)
        for epoch in range(resume(run, experiment) + 1, config.epochs + 1):
            try:
                asked = time.perf_counter()
                came = (yield Due(experiment, epoch)) if epoch else None
            except Diverged as error:
                place = {"epoch": epoch, "entry": None, "tap": None, "phase": error.phase}
                run.fail({"reason": f"{error} (epoch {epoch})", **place})
                yield None
                return
            if came is not None:
                started += time.perf_counter() - asked - came.seconds  # the caller may have trained other runs too
            train_loss = None if came is None else came.loss
            diverged = train_loss is not None and not math.isfinite(train_loss)
            if is_logged(config, epoch) or diverged:
                row = measure(experiment, epoch, train_loss=train_loss, seconds=time.perf_counter() - started)
                run.append(row)
                yield row
                started = time.perf_counter()
                if overflow(row):
                    run.fail(failure(experiment, row))
                    return
            if epoch in config.keep_epochs:  # saved first: the last checkpoint implies that this one exists
                checkpoint.save(run.kept(epoch), experiment.state, epoch, ties=run.ties())
            checkpoint.save(run.checkpoint, experiment.state, epoch, ties=run.ties())
            saved = time.perf_counter()
            yield None
            started += time.perf_counter() - saved  # the time of the caller is not training time
        weights = checkpoint.fingerprint(experiment.state.params)
        ended = {**summary(run.rows()), "weights_sha256": weights, "peak_bytes": peak_bytes()}
        if experiment.dataset.classes:
            ended[answers.KEY] = answers.packed(test_right(experiment).tolist())
        run.finish(ended)
        yield None


def must_be_trained_on(run: Run, dataset: Dataset, *, data_dir: Path) -> None:
    """Raise if a finished run was trained on other data."""
    found = dataset.fingerprint()
    if found != run.environment().get("data_sha256", found):
        raise StoreError(
            f"{run.path} is finished, but was trained on other {dataset.name} files than those in {data_dir} (their "
            "contents differ). Point --data-dir at the same copy, or use another --runs directory."
        )


def is_logged(config: RunConfig, epoch: int) -> bool:
    """Whether an epoch has a row."""
    return epoch % config.log_every == 0 or epoch == config.epochs or epoch in config.probe_epochs


def is_probed(config: RunConfig, epoch: int) -> bool:
    """Whether an epoch's row includes the costly probes: at ``probe_epochs`` and, if there are any, at the end."""
    return epoch in config.probe_epochs or bool(config.probe_epochs and epoch == config.epochs)


def learning_rate(config: RunConfig, epoch: int, rate: float) -> float:
    """The learning rate of an epoch, from the rate of epoch 1.

    ``cosine`` falls to 0 at the epoch after the last. ``step`` is multiplied by lr-factor after each milestone.
    ``cooldown`` is constant for half of the epochs, then falls linearly to 0 at the second epoch after the last.
    """
    if config.schedule == "constant":
        return rate
    if config.schedule == "step":
        passed = sum(milestone < epoch for milestone in config.milestones)
        return rate * float(config.lr_factor**passed)
    if config.schedule == "cooldown":
        return rate * min(1.0, 2.0 * (config.epochs + 2 - epoch) / config.epochs)
    return 0.5 * rate * (1.0 + math.cos(math.pi * (epoch - 1) / config.epochs))


def one_epoch(experiment: Experiment, epoch: int) -> float:
    """One pass over the training set; returns the mean loss, each sample at the weights of its step."""
    rule, take, live, random = experiment.rule, experiment.step, experiment.state, experiment.state.generators
    tensors = live.params | live.rule_state
    live.optimizer.set_rates(lambda rate: learning_rate(experiment.config, epoch, rate))
    total = torch.zeros((), dtype=torch.float64, device=experiment.batches.device)
    for x, y in experiment.batches.epoch(random):
        net = experiment.net.in_training(random["dropout"])
        with experiment.autocast():
            step = take(net, live.params, live.rule_state, x, y, generator=random["step"])
        for name, gradient in step.grads.items():
            tensors[name].grad = gradient.contiguous()  # torch's fused optimizers do not look at strides
        live.optimizer.step()
        for name in step.grads:
            tensors[name].grad = None  # a rule may train other parameters in the next step
        with torch.no_grad():
            for name, value in rule.after_update(
                net, live.params, live.rule_state, step, generator=random["step"]
            ).items():
                live.rule_state[name].copy_(value)
        total += step.loss * len(x)
    return float(total) / experiment.batches.samples


def measure(experiment: Experiment, epoch: int, *, train_loss: float | None, seconds: float) -> Row:
    """One row: the probes that are due, on the evaluation buffer, and every 10 epochs the full test set.

    ``seconds`` is the training time since the previous row, checkpoints included; ``probe_seconds`` is the time of this
    row.
    """
    started = time.perf_counter()
    row = Row(epoch=epoch)
    reading = read(experiment)
    _ = reading.gradients  # first, because the pass that makes them also makes all that the other probes read
    for probe in PROBES.values():
        if probe.tier == "cheap" or is_probed(experiment.config, epoch):
            row.update(measured(probe, reading))
    due = epoch % TEST_EVERY == 0 or epoch == experiment.config.epochs
    row["test_acc"] = test_accuracy(experiment) if due and experiment.dataset.classes else None
    if not experiment.dataset.classes:
        row["test_nse"] = test_squared_error(experiment) if due else None
    row["eval_samples"], row["test_samples"] = len(reading.y), len(experiment.dataset.test_y)
    row["classes"] = experiment.dataset.classes
    row["train_loss"] = train_loss
    row["seconds"] = round(seconds, 4)
    row["probe_seconds"] = round(time.perf_counter() - started, 4)
    return row


def read(experiment: Experiment) -> Reading:
    """The current network on the evaluation buffer."""
    state = experiment.state
    x, y = experiment.buffer
    return Reading(
        experiment.net,
        experiment.rule,
        state.params,
        state.rule_state,
        experiment.dataset.normalise(x, experiment.batches.dtype),
        y,
        seed=experiment.config.seed,
        initial=experiment.initial,
    )


def test_accuracy(experiment: Experiment) -> float:
    """Accuracy on the full test set."""
    return int(test_right(experiment).sum()) / len(experiment.dataset.test_x)


def test_right(experiment: Experiment) -> Tensor:
    """Whether the answer to each test sample is right, on the CPU."""
    return torch.cat([outputs.argmax(dim=1) == y for outputs, y in predictions(experiment)]).cpu()


def test_squared_error(experiment: Experiment) -> float:
    """The squared error on the full test set, divided by that of the best constant prediction."""
    targets = experiment.dataset.test_y.double()
    constant = float((targets - targets.mean(dim=0)).square().sum())
    return sum(float((outputs.double() - y).square().sum()) for outputs, y in predictions(experiment)) / constant


@torch.no_grad()
def predictions(experiment: Experiment) -> Iterator[tuple[Tensor, Tensor]]:
    """The outputs by which the rule predicts, and the targets, for the full test set in chunks."""
    data, batches, live = experiment.dataset, experiment.batches, experiment.state
    chunks = (torch.split(part, TEST_CHUNK) for part in experiment.test_set)
    for x, y in zip(*chunks, strict=True):
        x = data.normalise(x.to(batches.device), batches.dtype)
        yield experiment.rule.predict(experiment.net, live.params, live.rule_state, x), y.to(batches.device)


def resume(run: Run, experiment: Experiment) -> int:
    """Restore the experiment from its last checkpoint; returns the epoch of that checkpoint, −1 if there is none."""
    if not run.checkpoint.exists():
        run.keep_rows(until=-1)
        return -1
    epoch = checkpoint.restore(run, experiment.state)
    there = {row["epoch"] for row in run.rows()}
    missing = [due for due in range(epoch + 1) if is_logged(experiment.config, due) and due not in there]
    if missing:
        raise StoreError(
            f"{run.rows_file} lacks the row of epoch {missing[0]}, but the checkpoint is at epoch {epoch}. "
            f"Put the file back, or delete {run.path} to train the run again."
        )
    if lost := [due for due in experiment.config.keep_epochs if due <= epoch and not run.kept(due).exists()]:
        problem = f"the checkpoint of keep-epochs is missing, but {run.checkpoint.name} is at epoch {epoch}"
        raise damaged(run.kept(lost[0]), problem)
    return epoch


def failure(experiment: Experiment, row: Row) -> dict[str, Any]:
    """Where a run diverged: the epoch, the first entry that overflowed, and the first tap that is not finite."""
    found = overflow(row)
    assert found is not None, "only a row that overflowed fails a run"
    reading = read(experiment)
    taps = [tap for tap, h in enumerate(reading.taps) if not bool(h.isfinite().all())]
    if not taps:  # only a gradient overflowed; gradients flow backwards, so the last tap is the first to overflow
        taps = [tap for tap, g in enumerate(reading.gradients) if not bool(g.isfinite().all())][::-1]
    tap = taps[0] if taps else found[1]
    place = f"at tap {tap}" if tap is not None else "in the training loss"
    reason = f"diverged: {found[0]} overflowed {place} after epoch {row['epoch']}"
    return {"reason": reason, "epoch": row["epoch"], "entry": found[0], "tap": tap}
