"""The interface of an optimizer: a frozen value whose fields are its settings, and which builds torch's optimizer.

Learning rate and weight decay are settings of every run, so ``build`` gets them as arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Tensors, or groups of them with their own learning rate, as torch's optimizers take them.
Trained = Sequence[Tensor] | Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Optimizer(ABC):
    """Base class of optimizers."""

    @abstractmethod
    def build(self, params: Trained, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """A new optimizer of torch over these parameters. It skips a parameter without a gradient."""
