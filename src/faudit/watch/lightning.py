"""Watch a Lightning ``Trainer``: a callback that logs every epoch and, on request, compares the last batch of each.

    callback = WatchCallback(eval_batch=(x, y), taps="blocks.*", compare=True)
    Trainer(callbacks=[callback]).fit(module, loader)
    print(callback.watch.verdict())

The module's ``forward`` returns the logits. A comparison needs batches (x, y) and no accumulated gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from faudit.errors import ConfigError
from faudit.watch.loop import Watch, watch

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        raise ConfigError(
            "faudit.watch.lightning needs the package lightning or pytorch-lightning, which is not installed. "
            "Install it with `pip install 'faudit[lightning]'`."
        ) from None


class WatchCallback(Callback):  # type: ignore[misc]  # Lightning is an extra, whose types may be unknown
    """Watches the module of a ``Trainer``. ``options`` are those of ``faudit.watch``; ``watch`` is the watched loop."""

    watch: Watch

    def __init__(self, *, compare: bool = False, **options: Any) -> None:
        super().__init__()
        self._options, self._compare = options, compare
        self._batch: Any = None
        self._random = torch.get_rng_state()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.watch = watch(pl_module, **self._options)
        self.watch.__enter__()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._batch, self._random = batch, torch.get_rng_state()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        if self._compare and trainer.is_last_batch and trainer.accumulate_grad_batches == 1:
            self.watch.compare(*self._batch, rng_state=self._random)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        found: dict[str, Tensor] = trainer.callback_metrics
        self.watch.log(trainer.current_epoch, train_loss=found.get("train_loss"))  # type: ignore[arg-type]  # a number

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.watch.__exit__(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.watch.__exit__(type(exception), exception, exception.__traceback__)
