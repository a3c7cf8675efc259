"""SmallCNN is the stack of torch's own layers that its docstring names, and refuses images too small for it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from faudit.errors import ConfigError
from faudit.nets.cnn import SmallCNN
from tests.support.nets import CLASSES


@pytest.mark.parametrize("width", [32, 3])
def test_the_logits_are_those_of_torchs_layers(width: int) -> None:
    net = SmallCNN((1, 4, 4), CLASSES, width=width)
    params = {name: value.double() for name, value in net.init(torch.Generator().manual_seed(0)).items()}
    x = torch.randn(5, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * width, 8 * width), nn.ReLU(),
        nn.Linear(8 * width, CLASSES),
    ).double()  # fmt: skip
    parts = ["embed", "blocks.0", "blocks.1", "blocks.2", "readout"]
    layers = [layer for layer in theirs if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for name, layer in zip(parts, layers, strict=True):
            layer.weight.copy_(params[f"{name}.weight"])
            assert layer.bias is not None
            layer.bias.copy_(params[f"{name}.bias"])
    torch.testing.assert_close(net.forward(params, x), theirs(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(3, 3, 32), (1, 28, 2)])
def test_images_that_two_pools_leave_nothing_of_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="expected images of at least 4×4 pixels"):
        SmallCNN(shape, 10)
