"""Γ is one for BP, has no value where nothing is taught, and is right where libraries clamp it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from faudit.probes.alignment import Alignment
from faudit.probes.probe import Reading
from tests.support.nets import Setup


def test_bp_is_aligned_with_itself(net_name: str) -> None:
    gamma = Alignment().measure(Setup("bp", net_name).reading())["gamma"]
    np.testing.assert_allclose(gamma, 1.0, rtol=1e-12)


@pytest.mark.parametrize("rule", ["frozen-dfa", "frozen-fa", "frozen-bp"])
def test_a_block_that_is_taught_nothing_has_no_gamma(rule: str) -> None:
    setup = Setup(rule, "resmlp")
    row = Alignment().measure(setup.reading())
    assert row["gamma"][0] is not None
    assert row["gamma"][1:] == [None, None] and row["gamma_undefined"] == [0, len(setup.x), len(setup.x)]


def test_a_sample_without_error_is_fitted_and_not_scored() -> None:
    """Logits so far apart that softmax is exactly one-hot: e = 0 and g = 0 for the samples that are right."""
    setup = Setup("dfa", "resmlp-no-norm")
    plain = copy.copy(setup)
    plain.params = {name: value.detach().clone() for name, value in setup.params.items()}
    plain.params["readout.head.weight"] *= 1e6
    logits = plain.net.forward(plain.params, plain.x)
    plain.y = logits.argmax(dim=1)
    plain.y[:2] = (plain.y[:2] + 1) % plain.net.classes
    row = Alignment().measure(plain.reading())
    assert row["fitted"] == len(plain.x) - 2 and row["gamma_undefined"] == [0] * plain.net.blocks
    assert all(-1 <= value <= 1 for value in row["gamma"])
    plain.y = logits.argmax(dim=1)
    row = Alignment().measure(plain.reading())
    assert row["gamma"] == [None] * plain.net.blocks and row["fitted"] == len(plain.x)


def test_gamma_is_right_for_an_exploded_stream_with_a_tiny_gradient() -> None:
    """‖h‖ ~ 1e12 makes g ~ 1e-12: there the library's clamp would pull every cosine towards zero."""
    setup = Setup("dfa", "resmlp")
    with torch.no_grad():
        for name in ("embed.weight", "embed.bias"):
            setup.params[name] *= 1e12
    wide = Alignment().measure(setup.reading())
    small = {name: value.detach().float() for name, value in setup.params.items()}
    state = {name: value.float() for name, value in setup.state.items()}
    reading = Reading(setup.net, setup.rule, small, state, setup.x.float(), setup.y)
    single = Alignment().measure(reading)
    np.testing.assert_allclose(single["gamma"], wide["gamma"], atol=1e-4)
    clamped = torch.nn.functional.cosine_similarity(reading.credits[0], reading.gradients[0]).mean()
    assert abs(float(clamped) - wide["gamma"][0]) > 0.5 * abs(wide["gamma"][0]), "the clamp would not show here"
