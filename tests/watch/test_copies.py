"""A foreign model is measured on copies, and is left as it was to the last bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from faudit import FauditError, audit_model
from tests.support.models import CLASSES, MLP_TAPS, batch, everything, mlp


def spoiled() -> nn.Module:
    """A BatchNorm ResNet in train mode with grads, a frozen weight, a submodule in eval mode and a hook of its own."""
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 4, 3, padding=1)
    body = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
    model = nn.Sequential(conv, body, nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, CLASSES)).train()
    model(torch.randn(8, 1, 4, 4)).sum().backward()
    conv.bias.requires_grad_(False)  # type: ignore[union-attr]  # a Conv2d with a bias
    body[0].eval()
    model[0].register_forward_hook(lambda module, args, output: None)
    return model


@pytest.mark.parametrize("refused", [False, True])
def test_a_model_is_left_as_it_was_to_the_last_bit(refused: bool) -> None:
    model = spoiled()
    x, y = torch.randn(12, 1, 4, 4), torch.arange(12) % CLASSES
    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4, shuffle=True)
    before = everything(model)

    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        torch.rand(1), np.random.rand(), random.random()
        for h in (*taps, logits):
            h.add_(1.0)  # writing into what it is given spoils nothing
        return [] if refused else [h - 1.0 for h in taps]

    if refused:
        with pytest.raises(FauditError):
            audit_model(model, loader, taps=["0", "1"], credit=credit)
    else:
        once = audit_model(model, loader, taps=["0", "1"], credit=credit)
        assert everything(model) == before
        assert once.row == audit_model(model, loader, taps=["0", "1"], credit=credit).row
    assert everything(model) == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_works_where_gradients_are_switched_off(mode: Any) -> None:
    model, data = mlp(), [batch()]
    wanted = audit_model(model, data, taps=MLP_TAPS).row
    with mode():
        assert audit_model(model, data, taps=MLP_TAPS).row == wanted
