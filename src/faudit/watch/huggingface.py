"""Watch a Hugging Face ``Trainer``: a callback that logs every epoch and, on request, compares one batch of each.

    callback = WatchCallback(eval_batch=({"pixel_values": x}, y), taps="vit.layers.*", compare=True)
    Trainer(model, args, train_dataset=data, callbacks=[callback]).train()
    print(callback.watch.verdict())

A callback of the ``Trainer`` does not see the batches. To compare, a forward hook that changes nothing keeps the inputs
of the model. The compared batch is the first of each epoch. A ``Trainer`` does not tell its callbacks of a crash: the
run of a crashed training stays unfinished.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from faudit.errors import ConfigError
from faudit.watch.loop import Watch, watch

try:
    from transformers import TrainerCallback
except ImportError:
    raise ConfigError(
        "faudit.watch.huggingface needs the package transformers, which is not installed. "
        "Install it with `pip install 'faudit[huggingface]'`."
    ) from None

LABELS = "labels"


class WatchCallback(TrainerCallback):  # type: ignore[misc]  # transformers is an extra, whose types may be unknown
    """Watches the model of a ``Trainer``. ``options`` are those of ``faudit.watch``; ``watch`` is the watched loop."""

    watch: Watch

    def __init__(self, *, compare: bool = False, **options: Any) -> None:
        self._options, self._compare = options, compare
        self._batch: dict[str, Any] | None = None
        self._random = torch.get_rng_state()
        self._handle: Any = None
        self._is_due = True

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: nn.Module, **rest: Any) -> None:
        self.watch = watch(model, **self._options)
        self.watch.__enter__()
        if self._compare:
            self._handle = self.watch.shadow.source.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _keep(self, _model: nn.Module, args: Any, inputs: dict[str, Any]) -> None:
        if not args and LABELS in inputs:
            self._batch, self._random = inputs, torch.get_rng_state()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self._is_due = args.gradient_accumulation_steps == 1

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._is_due and self._batch is not None:
            y = self._batch[LABELS]
            x = {name: value for name, value in self._batch.items() if name != LABELS and is_per_sample(value, len(y))}
            self.watch.compare(x, y, rng_state=self._random)
            self._is_due = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        losses = [told["loss"] for told in state.log_history if "loss" in told]
        self.watch.log(round(state.epoch), train_loss=losses[-1] if losses else None)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._handle is not None:
            self._handle.remove()
        self.watch.__exit__(None, None, None)


def is_per_sample(value: Any, samples: int) -> bool:
    """Whether an input has one entry for each sample; the ``Trainer`` also passes counts of a batch."""
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == samples
