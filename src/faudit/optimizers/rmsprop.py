"""RMSprop: v ← s v + (1 − s) g²;  w ← w − lr·g/(√v + ε), s = smoothing.

Weight decay is added to the gradient. Stores v and a step count per parameter. Tieleman & Hinton, lecture 6.5, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from faudit.optimizers.optimizer import Optimizer, Trained
from faudit.settings import number, setting


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Gradients divided by the root of their running mean square."""

    smoothing: float = setting(0.99, number(0.0, below=1.0), "decay of the mean of squared gradients")
    eps: float = setting(1e-8, number(0.0, above=True), "ε that is added to the root of the mean square")

    def build(self, params: Trained, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(params, lr=lr, weight_decay=weight_decay, alpha=self.smoothing, eps=self.eps)
