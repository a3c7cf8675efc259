"""ResMLP starts as the paper says, with and without its terminal norm and its skips."""

from __future__ import annotations

import pytest
import torch

from faudit.nets.resmlp import ResMLP
from tests.support.nets import TinyNet


def test_resmlp_starts_as_the_paper_says() -> None:
    params = ResMLP((3, 32, 32), 10).init(torch.Generator().manual_seed(0))
    assert params["embed.weight"].shape == (256, 3072)
    assert float(params["blocks.2.w2.weight"].std()) == pytest.approx(0.01, rel=0.02)
    assert bool((params["blocks.2.w2.bias"] == 0).all()) and bool((params["blocks.2.w1.bias"] != 0).all())
    assert sum(value.numel() for value in params.values()) == 3072 * 256 + 256 + 4 * (2 * 256 * 257 + 512) + 512 + 2570


def test_without_terminal_norm_there_is_none_and_without_skip_the_state_is_the_branch() -> None:
    assert "readout.norm.weight" not in TinyNet("resmlp-no-norm").params
    setup = TinyNet("resmlp-no-residual")
    trace = setup.net.trace(setup.params, setup.x)
    assert torch.equal(trace.taps[2], trace.branches[1])
