"""Watch a training loop that stays the user's own: one row per logged epoch, an ordinary run in the store, a verdict.

    with faudit.watch(model, eval_batch=(x, y), taps="blocks.*", name="my-dfa") as w:
        for epoch in range(epochs):
            ...  # any code
            w.log(epoch, lr=lr)
    print(w.verdict())

Everything is measured on copies that follow the model (``watch/shadow.py``). So the loop gets the same weights with and
without watching, bit for bit. A wrong argument is refused before the loop begins. A problem inside the loop gives a
warning and a row with fewer numbers, and the loop goes on. ``strict=True`` raises instead.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from faudit.audit import watched
from faudit.audit.audit import audit
from faudit.audit.judge import Verdict
from faudit.audit.protocol import DEFAULT, Protocol
from faudit.audit.protocol import protocol as protocol_named
from faudit.errors import ConfigError, FauditError, ModelError
from faudit.probes import PROBES, Entry
from faudit.probes.probe import Probe
from faudit.settings import epoch_list
from faudit.store import audits, checkpoint, controls
from faudit.store.audits import Facts, KeptAudit
from faudit.store.environment import environment
from faudit.store.files import write_json
from faudit.store.rows import OWN, Row, overflow
from faudit.store.run import FORMAT, Run, Status
from faudit.store.summary import summary
from faudit.store.watched import WatchedConfig, name_of_run
from faudit.watch.batches import buffer, pair
from faudit.watch.blocks import BlockReading
from faudit.watch.compare import Comparison, compared, true_gradients, updates_of
from faudit.watch.copies import refuse_weights, tensors
from faudit.watch.credit import Credit
from faudit.watch.model import is_list_of, refuse_labels, refuse_nondeterministic
from faudit.watch.net import Inputs, described, error_text
from faudit.watch.plain import is_meant, refuse_other_backward, unwrapped
from faudit.watch.reading import Fresh, Loss, loss_of
from faudit.watch.shadow import Shadow, apart, refuse_device


def watch(
    model: nn.Module,
    *,
    eval_batch: tuple[Any, Tensor],
    taps: Sequence[str] | str,
    runs: Path | str = "runs",
    name: str = "watched",
    seed: int = 0,
    data: str = "own",
    settings: Mapping[str, Any] | None = None,
    loss: Loss | None = None,
    credit: Credit | None = None,
    fresh: Fresh | None = None,
    plain: nn.Module | None = None,
    samples: int | None = None,
    probe_epochs: Sequence[int] = (),
    light: bool = False,
    strict: bool = False,
) -> Watch:
    """Watch a training loop: returns a context manager whose ``log`` writes one row of a run.

    ``eval_batch`` is (x, y), all that is measured on; ``samples`` limits it. ``taps`` are names or patterns of the
    submodules that are the blocks. ``name``, ``seed``, ``data`` (a label) and ``settings`` name the run. ``loss(logits,
    y)`` returns one number per sample; the default is cross-entropy. ``credit`` and ``fresh`` are those of
    ``audit_model``. ``plain`` is the same network with ordinary layers, for a model with a backward pass of its own.
    The costly probes run at ``probe_epochs`` and at the end; with ``light`` they never run. With ``strict`` a problem
    inside the loop raises.
    """
    patterns = [taps] if isinstance(taps, str) else taps
    if not isinstance(model, nn.Module):
        raise ModelError(f"the model: expected a torch.nn.Module, got {described(model)}")
    if not is_list_of(patterns, str):
        raise ModelError(f"the taps: expected names or patterns of submodules, got {taps!r}")
    if fresh is not None and credit is None:
        raise ModelError("fresh: expected together with a credit, whose null it draws. Give credit=… too.")
    for what, value, parse in (("name", name, name_of_run), ("probe_epochs", probe_epochs, epoch_list)):
        try:
            parse(value)
        except ValueError as error:
            raise ConfigError(f"{what}: expected {error}, got {value!r}") from None
    with apart():
        x, y = buffer([pair(eval_batch, where="the eval batch")], samples=samples)
        refuse_weights(unwrapped(model))
        refuse_device(unwrapped(model), named(x, y))
        shadow = Shadow(model, plain, x, patterns=patterns, samples=len(y))
        reading = BlockReading(shadow.net, shadow.exact, x, y, own_loss=loss, credit=credit, fresh=fresh, seed=seed)
        if loss is None:
            refuse_labels(reading.trace.logits, y)
        _ = reading.losses  # refuses a loss that is not per sample
        if credit is not None:
            refuse_nondeterministic(reading)
        if not is_meant(model, plain):
            refuse_other_backward(shadow.exact, x, y, loss_of(loss))
        dtype = str(reading.trace.logits.dtype).removeprefix("torch.")
        classes = shadow.net.classes if reading.is_classification else 0
    config = WatchedConfig(
        watched=name,
        net=type(shadow.source).__name__,
        rule=name,
        data=data,
        epochs=0,
        seed=seed,
        taps=" ".join(shadow.names),
        credit="none" if credit is None else "turned" if fresh is None else "fresh",
        measures="light" if light else "full",
        probe_epochs=probe_epochs,
        eval_size=len(y),
        dtype=dtype,
        **{f"own_{key}": str(value) for key, value in (settings or {}).items()},
    )
    return Watch(shadow, config, x, y, runs=Path(runs), classes=classes, loss=loss, credit=credit, fresh=fresh,
                 is_strict=strict)  # fmt: skip


class Watch:
    """A watched loop. ``run`` is its run, ``rows`` what was logged so far."""

    def __init__(
        self,
        shadow: Shadow,
        config: WatchedConfig,
        x: Inputs,
        y: Tensor,
        *,
        runs: Path,
        classes: int,
        loss: Loss | None,
        credit: Credit | None,
        fresh: Fresh | None,
        is_strict: bool,
    ) -> None:
        self.run, self.rows = Run(runs / config.run_id), list[Row]()
        self.shadow, self.config, self.is_strict = shadow, config, is_strict
        self._x, self._y, self._classes = x, y, classes
        self._loss, self._credit, self._fresh = loss, credit, fresh
        self._open = ExitStack()
        self._state, self._state_of = shadow.initial, 0  # the weights of the last measured row, and its epoch
        self._compared: Comparison | None = None
        self._offset: int | None = None  # from the user's epochs to those of the rows
        self._told: set[str] = set()
        self._is_open, self._is_idle = False, False
        self._since, self._measuring = 0.0, 0.0

    @property
    def taps(self) -> tuple[str, ...]:
        """The names of the blocks, in the order in which they run."""
        return self.shadow.names

    def __enter__(self) -> Watch:
        if self.run.status not in (Status.NEW, Status.RUNNING) and (aside := self.run.set_aside()):
            warnings.warn(f"faudit.watch: {self.run.path} was there before; its files are in {aside}", stacklevel=2)
        self._open.enter_context(self.run.locked())
        self.run.begin(self.config, {**environment(), "data_sha256": fingerprint(self._x, self._y)})
        self._since, self._is_open = time.perf_counter(), True
        self._write(0, {})
        self._save()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        with self._open:
            try:
                self._end(error)
            except FauditError as problem:
                if error is None:
                    raise
                warnings.warn(f"faudit.watch: {problem}", stacklevel=2)  # the error of the loop is the one to raise

    def log(self, epoch: int, *, train_loss: float | None = None, **values: Any) -> Row | None:
        """Measure the model and write the row of an epoch; ``values`` are numbers of your own.

        Epochs count from 0 or from 1. If the first one is 0, the row has one more: the number of epochs done. Returns
        the row, or None if the epoch was refused.
        """
        if self._is_idle:
            return None
        try:
            self._must_be_open("w.log")
            place = self._place(epoch)
            own = numbers({"train_loss": train_loss, **values})
        except ModelError as error:
            self._problem(error)
            return None
        return self._write(place, own)

    def compare(
        self,
        x: Any,
        y: Tensor,
        *,
        updates: Mapping[str, Tensor] | None = None,
        rng_state: Tensor | None = None,
    ) -> Comparison | None:
        """Compare ``.grad``, or ``updates``, with autograd's gradient of the mean loss on the same batch.

        Call it after the backward pass and before the optimizer's step. An update is what an optimizer subtracts, as
        ``.grad`` is. The copy is in the model's own train or eval mode. Dropout draws its masks from ``rng_state``
        (``torch.get_rng_state()`` before your forward pass), else from the current state. The next row has the result.
        """
        if self._is_idle:
            return None
        started = time.perf_counter()
        try:
            self._must_be_open("w.compare")
            with apart():
                x, y = pair((x, y), where="the batch")
                refuse_device(self.shadow.source, named(x, y))
                own = updates_of(self.shadow.source, updates)
                self.shadow.follow()
                if rng_state is not None:
                    put_rng_state(rng_state)
                with self.shadow.in_training() as copy:
                    true = true_gradients(copy, x, y, loss_of(self._loss))
                self._compared = compared(own, true, self.shadow.parts)
        except ModelError as error:
            self._problem(error)
            return None
        finally:
            self._measuring += time.perf_counter() - started
        return self._compared

    def verdict(self, protocol: str | Protocol = DEFAULT) -> Verdict:
        """The verdict on the run; inside the loop, on the rows so far."""
        asked = protocol_named(protocol)
        if self.run.status in (Status.DONE, Status.FAILED):
            return audit(self.run, asked, data_dir=None).verdict
        case = watched.case_of(self.config, self.rows, kept={}, accuracies=controls.read(self.run))
        return watched.judged(case, asked)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """While the control trains, ``log`` and ``compare`` do nothing: its loop is that of the watched model."""
        before, self._is_idle = self._is_idle, True
        try:
            yield
        finally:
            self._is_idle = before

    def _must_be_open(self, call: str) -> None:
        if not self._is_open:
            raise ModelError(f"{call}: expected inside the `with` block of the watch, got it outside. It is left out.")

    def accuracy_of(self, model: nn.Module) -> float:
        """The accuracy of another model of the same kind on the eval batch."""
        if not self._classes:
            raise ModelError(
                "the accuracy: expected labels that name classes, got others. A control needs an accuracy."
            )
        with apart():
            self.shadow.hold(tensors(model))
            reading = self._reading()
            return float((reading.trace.logits.argmax(dim=1) == self._y).double().mean())

    def _place(self, epoch: int) -> int:
        """The epoch of the row."""
        try:
            wanted = index(epoch)
        except TypeError:
            wanted = -1
        if wanted < 0:
            raise ModelError(f"the epoch: expected a whole number from 0 on, got {epoch!r}. The row is left out.")
        offset = (1 if wanted == 0 else 0) if self._offset is None else self._offset
        if wanted + offset <= self.rows[-1]["epoch"]:
            raise ModelError(
                f"epoch {wanted}: expected a later one than {self.rows[-1]['epoch'] - offset}, which was logged. The "
                "row is left out."
            )
        self._offset = offset
        return wanted + offset

    def _write(self, epoch: int, own: Mapping[str, float | None]) -> Row:
        """Measure the model as it is now and append the row."""
        started = time.perf_counter()
        seconds = max(started - self._since - self._measuring, 0.0)
        row = Row(epoch=epoch)
        full = epoch in self.config.probe_epochs and self.config.measures == "full"
        with apart():
            reading = None
            try:
                self.shadow.follow(exactly=full)
                self._state, self._state_of = self.shadow.state(), epoch
                reading = self._reading()
            except ModelError as error:
                self._problem(error)
            row.update(self._cheap(reading))
            if full and reading is not None:
                row.update(self._full(reading))
        row["test_acc"] = row["acc_eval"]  # the eval batch is its test set
        row["eval_samples"] = row["test_samples"] = len(self._y)
        row["classes"] = self._classes
        row["train_loss"] = own.get("train_loss")
        if self._compared is not None:
            row.update(self._compared.row(self.shadow.net.parts))
        row.update({f"{OWN}{name}": value for name, value in own.items() if name != "train_loss"})
        row["seconds"] = round(seconds, 4)
        now = time.perf_counter()
        row["probe_seconds"] = round(now - started + self._measuring, 4)
        self._since, self._measuring, self._compared = now, 0.0, None
        self.run.append(row)
        self.rows.append(row)
        return row

    def _reading(self) -> BlockReading:
        return BlockReading(
            self.shadow.net,
            self.shadow.exact,
            self._x,
            self._y,
            own_loss=self._loss,
            credit=self._credit,
            fresh=self._fresh,
            seed=self.config.seed,
            weights=self.shadow.blocks_of(self._state),
            began=self.shadow.blocks_of(self.shadow.initial),
        )

    def _cheap(self, reading: BlockReading | None) -> dict[str, Any]:
        """What every row holds; undefined where it cannot be measured."""
        found: dict[str, Any] = {}
        for name, probe in PROBES.items():
            declared = PROBES.declared(name)
            if declared.tier == "cheap" and any(entry.required for entry in declared.entries):
                asked = reading is not None and reading.offers.issuperset(declared.needs)
                found |= {entry.name: self._undefined(entry) for entry in declared.entries}
                found |= self._measured(probe, reading) if asked and reading is not None else {}
        return found

    def _full(self, reading: BlockReading) -> dict[str, Any]:
        """What the costly probes measure whose needs are met."""
        found: dict[str, Any] = {}
        for name, probe in PROBES.items():
            declared = PROBES.declared(name)
            if declared.tier == "full" and reading.offers.issuperset(declared.needs):
                found |= self._measured(probe, reading)
        return found

    def _measured(self, probe: type[Probe], reading: BlockReading) -> dict[str, Any]:
        try:
            return probe().measure(reading)
        except ModelError as error:
            self._problem(error)
            return {}

    def _undefined(self, entry: Entry) -> Any:
        """An entry that was not measured."""
        places = {"taps": self.shadow.net.blocks + 1, "blocks": self.shadow.net.blocks}
        return None if entry.shape == "scalar" else [None] * places[entry.shape]

    def _end(self, error: BaseException | None) -> None:
        """Measure what is left and write how the loop ended."""
        epoch = self.rows[-1]["epoch"]
        self.config = self.config.with_(epochs=max(epoch, 1))
        told = {"format": FORMAT, "run_id": self.config.run_id, "config": self.config.to_json()}
        write_json(self.run.path / "config.json", told)
        kept = self._last_probes() if error is None else {}
        self._save()
        if error is not None:
            self.run.fail({"reason": f"{error_text(error)} (after epoch {epoch})", "epoch": epoch})
            return
        diverged = next(((row["epoch"], found) for row in self.rows if (found := overflow(known(row)))), None)
        if diverged is not None:
            after, (entry, tap) = diverged
            reason = f"diverged: {entry} overflowed after epoch {after}"
            self.run.fail({"reason": reason, "epoch": epoch, "entry": entry, "tap": tap})
        else:
            weights = checkpoint.fingerprint(self._state)
            self.run.finish({**summary(self.run.rows()), "weights_sha256": weights})
        if kept:  # after the file that ends the run, to which the measurements are tied
            facts = Facts(trains_blocks=True, no_control=None, test_samples=len(self._y), classes=self._classes,
                          eval_samples=len(self._y))  # fmt: skip
            versions = {name: PROBES.declared(name).version for name in PROBES}
            audits.write(self.run, KeptAudit({"watched": kept}, versions, facts))

    def _last_probes(self) -> dict[str, Any]:
        """The costly probes on the weights of the last row, if that row lacks them."""
        epoch = self.rows[-1]["epoch"]
        if self.config.measures == "light" or epoch in self.config.probe_epochs or epoch != self._state_of:
            return {}
        with apart():
            self.shadow.hold(self._state, exactly=True)
            return self._full(self._reading())

    def _save(self) -> None:
        """Write the weights of the last row and those that the loop began with."""
        held = {f"net/{name}": value for name, value in self._state.items()}
        held |= {f"initial/{name}": value for name, value in self.shadow.initial.items()}
        whole = {name: value.cpu().contiguous().clone() for name, value in held.items()}
        checkpoint.write(self.run.checkpoint, whole, self._state_of, ties=self.run.ties())

    def _problem(self, error: FauditError) -> None:
        """A problem inside the loop: raised if the caller asked for it, else one warning for each text."""
        if self.is_strict:
            raise error
        if str(error) not in self._told:
            self._told.add(str(error))
            warnings.warn(f"faudit.watch: {error}", stacklevel=4)


def known(row: Row) -> dict[str, Any]:
    """The entries of a row without numbers of the caller's own, in which infinity may mean anything."""
    return {name: value for name, value in row.items() if not name.startswith(OWN)}


def numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    """The caller's values as numbers that a row can hold."""
    found: dict[str, float | None] = {}
    for name, value in values.items():
        try:
            found[name] = None if value is None else float(value.detach() if isinstance(value, Tensor) else value)
        except (TypeError, ValueError, RuntimeError):
            raise ModelError(f"{name}: expected a number, got {described(value)}. The row is left out.") from None
    return found


def put_rng_state(state: Tensor) -> None:
    """Set the state of torch's generator to the caller's."""
    try:
        torch.set_rng_state(state)
    except (TypeError, RuntimeError) as error:
        raise ModelError(
            f"rng_state: expected what torch.get_rng_state() returned, got {described(state)}: {error_text(error)}."
        ) from error


def named(x: Inputs, y: Tensor) -> dict[str, Tensor]:
    """The tensors of a batch by name."""
    return {**(dict(x) if isinstance(x, Mapping) else {"x": x}), "y": y}


def fingerprint(x: Inputs, y: Tensor) -> str:
    """A checksum of the evaluation batch."""
    digest = hashlib.sha256()
    for name, value in named(x, y).items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
