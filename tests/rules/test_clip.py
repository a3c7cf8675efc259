"""Clipping: each block on its own, in place where the gradients allow it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faudit.rules.local import clip_blocks

LARGEST = 0.5


def gradients() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(3)
    shapes = {"embed.w": (4, 3), "blocks.0.w": (5, 4), "blocks.0.b": (5,), "blocks.1.w": (2, 2), "readout.w": (3,)}
    return {name: torch.randn(shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}


def by_hand(grads: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each block with ``clip_grad_norm_``, on copies."""
    copies = {name: torch.nn.Parameter(torch.empty_like(value)) for name, value in grads.items()}
    for name, value in grads.items():
        copies[name].grad = value.clone()
    for block in ("blocks.0.", "blocks.1."):
        torch.nn.utils.clip_grad_norm_([copy for name, copy in copies.items() if name.startswith(block)], LARGEST)
    return {name: copy.grad for name, copy in copies.items() if copy.grad is not None}


def test_each_block_is_clipped_as_by_torch_and_nothing_is_copied() -> None:
    grads, want = gradients(), by_hand(gradients())
    clipped = clip_blocks(grads, LARGEST)
    for name, value in clipped.items():
        torch.testing.assert_close(value, want[name], rtol=1e-12, atol=0)
        assert value is grads[name], "new tensors would cost a tenth of a step"


@pytest.mark.parametrize("case", ["one tensor for two weights", "a number expanded to a vector"])
def test_gradients_that_share_memory_are_scaled_once(case: str) -> None:
    grads = gradients()
    if case == "one tensor for two weights":
        grads["blocks.1.v"] = grads["blocks.1.w"]
    else:
        grads["blocks.1.v"] = torch.tensor(2.0, dtype=torch.float64).expand(3)
    want = by_hand({name: value.clone() for name, value in grads.items()})
    for name, value in clip_blocks(grads, LARGEST).items():
        torch.testing.assert_close(value, want[name], rtol=1e-12, atol=0)
