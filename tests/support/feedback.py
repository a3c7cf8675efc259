"""A model with feedback alignment inside a layer, as in BioTorch: its backward pass is not its derivative."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.support.loops import Stack
from tests.support.models import WIDTH


class Feedback(torch.autograd.Function):
    """x·Wᵀ whose backward pass sends the error through B."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, feedback: Tensor) -> Tensor:
        ctx.save_for_backward(x, feedback)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, feedback = ctx.saved_tensors
        return grads[0] @ feedback, grads[0].T @ x, None


class FeedbackLinear(nn.Linear):
    """A linear layer with feedback alignment inside."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH, bias=False)
        self.register_buffer("feedback", torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)))

    def forward(self, input: Tensor) -> Tensor:
        return Feedback.apply(input, self.weight, self.feedback)  # type: ignore[no-any-return, no-untyped-call]


def aligned() -> nn.Module:
    """A stack whose second layer teaches the first one by feedback alignment."""
    model = Stack()
    model.blocks[1][0] = FeedbackLinear()  # type: ignore[operator]  # a stack
    return model


def unaligned() -> nn.Module:
    """The same stack with an ordinary layer in that place, and weights of its own."""
    model = Stack()
    model.blocks[1][0] = nn.Linear(WIDTH, WIDTH, bias=False)  # type: ignore[operator]
    return model
