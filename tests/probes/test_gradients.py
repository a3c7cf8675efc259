"""Gradient norms are of each sample's own loss."""

from __future__ import annotations

import numpy as np

from faudit.probes.gradients import Gradients
from tests.support.nets import Setup


def test_the_gradient_norm_does_not_depend_on_the_buffer_size(net_name: str) -> None:
    """The study's does: it differentiates the mean over the buffer."""
    setup = Setup("bp", net_name)
    once = Gradients().measure(setup.reading())
    setup.x, setup.y = setup.x.repeat(4, 1, 1, 1), setup.y.repeat(4)
    often = Gradients().measure(setup.reading())
    np.testing.assert_allclose(often["grad_norms"], once["grad_norms"], rtol=1e-10)
