"""Gradient norms are of each sample's own loss."""

from __future__ import annotations

import numpy as np
import torch

from faudit.probes.gradients import Gradients
from tests.support.nets import Setup


def test_the_gradient_norm_does_not_depend_on_the_buffer_size(net_name: str) -> None:
    """The study's does: it differentiates the mean over the buffer."""
    setup = Setup("bp", net_name)
    once = Gradients().measure(setup.reading())
    setup.x, setup.y = setup.x.repeat(4, 1, 1, 1), setup.y.repeat(4)
    often = Gradients().measure(setup.reading())
    np.testing.assert_allclose(often["grad_norms"], once["grad_norms"], rtol=1e-10)


def test_one_pass_gives_the_same_as_two(net_name: str) -> None:
    """If the gradients are asked for first, their pass is the forward pass too."""
    setup = Setup("bp", net_name)
    twice, once = setup.reading(), setup.reading()
    wanted = [twice.trace.logits, *twice.trace.taps, *twice.trace.branches, *twice.gradients]
    gradients = once.gradients
    assert "trace" in once.__dict__, "nothing is computed again"
    trace = once.trace
    got = [trace.logits, *trace.taps, *trace.branches, *gradients]
    for a, b in zip(wanted, got, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)  # torch's attention rounds by whether it has a graph
    assert not any(one.requires_grad for one in got)
    assert torch.equal(trace.embedded, trace.taps[0]) and torch.equal(trace.end, trace.taps[-1])
    credits = zip(once.credits, once.credits_under(once.state), strict=True)
    assert all(torch.equal(a, b) for a, b in credits), "BP's credit is the gradient"
