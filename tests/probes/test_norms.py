"""An overflow of a hidden state shows in its norm."""

from __future__ import annotations

import math

import torch

from faudit.probes.norms import Norms
from tests.support.nets import Setup


def test_an_overflow_is_infinite_not_undefined() -> None:
    setup = Setup("bp", "resmlp")
    with torch.no_grad():
        setup.params["blocks.1.w2.weight"] *= math.inf
    hidden = Norms().measure(setup.reading())["hidden_norms"]
    assert all(math.isfinite(norm) for norm in hidden[:2]) and not math.isfinite(hidden[2])
