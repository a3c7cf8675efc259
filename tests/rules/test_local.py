"""The settings that every block-local rule has: the credit as it is, and weight decay of the blocks alone."""

from __future__ import annotations

import pytest
import torch

from faudit.config import RunConfig
from faudit.experiment import prepare
from faudit.nets.net import part
from tests.support.nets import Setup, tiny_dataset

LARGE = 1e9


@pytest.mark.parametrize("rule", ["dfa", "fa"])
def test_without_normalisation_blocks_and_embedding_learn_from_the_credit_itself(rule: str) -> None:
    """With a large ε the normalisation divides by ε alone, so the two differ by this factor."""
    plain = Setup(rule, "resmlp", clip=1e30, credit_norm="none").grads()
    faded = Setup(rule, "resmlp", clip=1e30, credit_eps=LARGE).grads()
    for name, gradient in plain.items():
        factor = 1.0 if part(name) == "readout" else LARGE
        torch.testing.assert_close(gradient, factor * faded[name], rtol=1e-7, atol=1e-15, msg=name)
    usual = Setup(rule, "resmlp", clip=1e30).grads()["blocks.0.w1.weight"]
    assert not torch.allclose(plain["blocks.0.w1.weight"], usual, rtol=0.1)


@pytest.mark.parametrize("rule", ["dfa", "state-bridge"])
def test_the_decay_of_blocks_reaches_the_blocks_and_nothing_else(rule: str) -> None:
    """Without a gradient, AdamW only shrinks a weight: by lr · decay."""
    config = RunConfig(rule=rule, width=8, batch_size=10, lr=0.1, weight_decay=0.25, block_decay=0.5)
    live = prepare(config, tiny_dataset()).state
    before = {name: value.detach().clone() for name, value in live.params.items()}
    for value in live.params.values():
        value.grad = torch.zeros_like(value)
    live.optimizer.step()
    for name, value in live.params.items():
        decay = 0.5 if name.startswith("blocks.") else 0.25
        torch.testing.assert_close(value.detach(), (1.0 - 0.1 * decay) * before[name], msg=name)
