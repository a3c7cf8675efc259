"""AdamW: Adam with weight decay apart from the gradient: w ← (1 − lr·decay) w − lr·m̂/(√v̂ + ε).

m and v are running means of g and g² with β = (0.9, 0.999), hats correct their start at zero, ε = 1e-8.
Stores m, v and a step count per parameter. Loshchilov & Hutter, ICLR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from faudit.optimizers.fused import FusedAdamW
from faudit.optimizers.optimizer import Optimizer, Trained


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def build(self, params: Trained, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return FusedAdamW(params, lr=lr, weight_decay=weight_decay)
