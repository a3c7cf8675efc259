"""StudentNet against its formula written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.nets import TinyNet


@pytest.mark.parametrize(("net", "alpha"), [("student", 1.0), ("student-half-linear", 0.5)])
def test_the_logits_are_those_of_the_formula(net: str, alpha: float) -> None:
    """h ← h + W2·φ(W1·h), φ(z) = (1 − α) z + α tanh z, between two linear layers and without any norm."""
    setup = TinyNet(net)
    w = {name: value.detach().numpy() for name, value in setup.params.items()}
    h = setup.x.flatten(1).numpy() @ w["embed.weight"].T + w["embed.bias"]
    for l in range(3):
        z = h @ w[f"blocks.{l}.w1.weight"].T + w[f"blocks.{l}.w1.bias"]
        z = (1 - alpha) * z + alpha * np.tanh(z)
        h = h + z @ w[f"blocks.{l}.w2.weight"].T + w[f"blocks.{l}.w2.bias"]
    logits = h @ w["readout.weight"].T + w["readout.bias"]
    got = setup.net.forward(setup.params, setup.x).detach().numpy()
    np.testing.assert_allclose(got, logits, rtol=1e-12)
