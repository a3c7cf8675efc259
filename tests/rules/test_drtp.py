"""DRTP: its step by hand, and hidden layers that know the label and not the output."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from faudit.nets.net import is_buffer, part
from tests.support.direct_by_hand import direct_grads
from tests.support.nets import CLASSES, Setup


@pytest.mark.parametrize("net", ["student", "mlp"])
def test_every_hidden_layer_learns_from_a_projection_of_the_label(net: str) -> None:
    setup = Setup("drtp", net)
    got, want = setup.grads(), direct_grads(setup, np.eye(CLASSES)[setup.y.numpy()])
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_allclose(got[name].numpy(), want[name], rtol=1e-9, atol=1e-13, err_msg=name)


def test_another_head_changes_the_readouts_update_and_no_other(net_name: str) -> None:
    setup = Setup("drtp", net_name)
    before = setup.grads()
    setup.params = {
        name: (value.detach() * -3.0).requires_grad_() if name.startswith("readout.") and not is_buffer(name) else value
        for name, value in setup.params.items()
    }
    after = setup.grads()
    changed = {part(name) for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"readout"}


def test_the_credit_ignores_the_logits_and_is_one_column_of_the_feedback(net_name: str) -> None:
    setup = Setup("drtp", net_name)
    trace = setup.net.trace(setup.params, setup.x)
    noise = torch.randn_like(trace.logits)
    one, other = (
        setup.rule.credit(setup.net, setup.params, setup.state, trace.taps, logits, setup.y)
        for logits in (trace.logits, noise)
    )
    for l, (credit, again) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(credit, again)
        if f"B.{l}" in setup.state:
            torch.testing.assert_close(credit, setup.state[f"B.{l}"].T[setup.y], rtol=1e-12, atol=0)


def test_a_batch_of_one_class_teaches_every_sample_with_one_column() -> None:
    setup = Setup("drtp", "mlp")
    setup.y = torch.full_like(setup.y, 2)
    credit = setup.credit()[1]
    assert bool((credit == credit[0]).all()) and bool(credit.any())
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())
