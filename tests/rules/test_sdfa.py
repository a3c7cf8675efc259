"""sDFA: its step by hand, and a signal that does not depend on the size of the error."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.direct_by_hand import direct_grads, output_errors
from tests.support.nets import Setup


@pytest.mark.parametrize("net", ["student", "mlp"])
def test_every_hidden_layer_learns_from_the_sign_of_the_error(net: str) -> None:
    setup = Setup("sdfa", net)
    got, want = setup.grads(), direct_grads(setup, np.sign(output_errors(setup)))
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_allclose(got[name].numpy(), want[name], rtol=1e-9, atol=1e-13, err_msg=name)


def test_the_credit_does_not_depend_on_the_size_of_the_error(net_name: str) -> None:
    setup = Setup("sdfa", net_name)
    trace = setup.net.trace(setup.params, setup.x)
    right = torch.nn.functional.one_hot(setup.y, setup.net.classes).double()
    small, large = (0.9 * right + 0.01, 0.5 * right + 0.05)  # more and less right, with errors of the same signs
    errors = [setup.net.output_error(logits, setup.y) for logits in (small, large)]
    assert torch.equal(errors[0].sign(), errors[1].sign()) and not torch.allclose(errors[0], errors[1])
    credits = [
        setup.rule.credit(setup.net, setup.params, setup.state, trace.taps, logits, setup.y)
        for logits in (small, large)
    ]
    assert all(torch.equal(one, other) for one, other in zip(*credits, strict=True))
    assert any(bool(credit.any()) for credit in credits[0])
