"""Adam: w ← w − lr·m̂/(√v̂ + ε), m and v running means of g and g² with β = (0.9, β₂).

Hats correct the start of the means at zero. Weight decay is added to the gradient, g + decay·w, and so it is scaled
like the gradient. AdamW scales it by lr alone. Stores m, v and a step count per parameter. Kingma & Ba, ICLR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from faudit.optimizers.fused import FusedAdam
from faudit.optimizers.optimizer import Optimizer, Trained
from faudit.settings import number, setting


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam, with weight decay in the gradient."""

    beta2: float = setting(0.999, number(0.0, below=1.0), "decay β₂ of the mean of squared gradients")
    eps: float = setting(1e-8, number(0.0, above=True), "ε that is added to the root of the mean square")

    def build(self, params: Trained, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return FusedAdam(params, lr=lr, weight_decay=weight_decay, betas=(0.9, self.beta2), eps=self.eps)
