"""Optimizers: one file each, all with the interface of ``optimizers.optimizer.Optimizer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.settings import Configurable

if TYPE_CHECKING:
    from faudit.optimizers.optimizer import Optimizer

OPTIMIZERS: Configurable[type[Optimizer]] = Configurable(
    "optimizer",
    {
        "adamw": "faudit.optimizers.adamw:AdamW",
        "sgd": "faudit.optimizers.sgd:SGD",
        "adam": "faudit.optimizers.adam:Adam",
        "rmsprop": "faudit.optimizers.rmsprop:RMSprop",
    },
    contract="faudit.optimizers.optimizer:Optimizer",
)
