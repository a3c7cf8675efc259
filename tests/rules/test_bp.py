"""BP is autograd through the whole net, and its credit is each sample's own gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import oracle_of


def test_bp_is_autograd(net_name: str) -> None:
    setup = Setup("bp", net_name)
    loss, want = setup.net.loss(setup.net.forward(setup.params, setup.x), setup.y), setup.exact()
    step = setup.rule.step(setup.net, setup.params, setup.state, setup.x, setup.y)
    assert torch.equal(step.loss, loss.detach()) and step.grads.keys() == want.keys()
    for name, gradient in want.items():
        torch.testing.assert_close(step.grads[name], gradient, rtol=1e-12, atol=1e-15, msg=name)


def test_bp_stores_nothing(net_name: str) -> None:
    assert Setup("bp", net_name).state == {}


@pytest.mark.parametrize("net", RESMLPS)
def test_bp_credit_is_the_gradient_of_each_samples_own_loss(net: str) -> None:
    setup = Setup("bp", net)
    oracle = oracle_of(setup)
    taps = oracle.bp(oracle.error(setup.y.numpy()))[1]
    credit = setup.credit()
    assert len(credit) == setup.net.signals
    for got, want in zip(credit, taps, strict=False):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-13)
