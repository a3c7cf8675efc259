"""What probes read, and each sample's own gradient, the slow way."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from faudit.probes.probe import Reading
from tests.support.nets import Setup


def reading_of(setup: Setup, dtype: torch.dtype = torch.float64, *, seed: int = 0) -> Reading:
    """A net under a rule as probes read it, of any type; the seed draws the random directions."""
    params = {name: value.detach().to(dtype) for name, value in setup.params.items()}
    state = {name: value.to(dtype) for name, value in setup.state.items()}
    return Reading(setup.net, setup.rule, params, state, setup.x.to(dtype), setup.y, seed=seed)


def per_sample_gradients(reading: Reading, tap: int) -> np.ndarray:
    """∂ℓ_i/∂h_l one sample at a time, in float64, each through a pass of its own."""
    out = []
    params = {name: value.double() for name, value in reading.params.items()}
    for i in range(len(reading.y)):
        h = reading.net.trace(params, reading.x[i : i + 1].double()).taps[tap].detach().requires_grad_()
        loss = F.cross_entropy(reading.net.onward(params, tap, h), reading.y[i : i + 1])
        out.append(reading.net.tap(torch.autograd.grad(loss, h)[0]).numpy()[0])
    return np.stack(out)
