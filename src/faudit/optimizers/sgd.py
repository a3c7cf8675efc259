"""SGD with momentum μ: v ← μ v + g + decay·w;  w ← w − lr·v.

Stores v per parameter if μ > 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from faudit.optimizers.optimizer import Optimizer, Trained
from faudit.settings import setting, share


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    momentum: float = setting(0.0, share, "share of the last step that the next one keeps")

    def build(self, params: Trained, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, weight_decay=weight_decay, momentum=self.momentum, fused=True)
