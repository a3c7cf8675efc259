"""LeNet is the stack of torch's own layers that BioTorch trains, and refuses images too small for it."""

from __future__ import annotations

from math import prod, sqrt

import pytest
import torch
from torch import nn

from faudit.errors import ConfigError
from faudit.nets.lenet import LeNet


def biotorchs(classes: int) -> nn.Sequential:
    """The layers of BioTorch 0.0.16 for 32×32 images; its third convolution is a linear layer of 16·5·5 inputs."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    ).double()  # fmt: skip


@pytest.mark.parametrize("side", [28, 32])
def test_the_logits_are_those_of_biotorchs_layers(side: int) -> None:
    """A 28×28 image with a border of 2 pixels is a 32×32 image."""
    net, theirs = LeNet((1, side, side), 10), biotorchs(10)
    params = {name: value.double() for name, value in net.init(torch.Generator().manual_seed(0)).items()}
    layers = [layer for layer in theirs if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for name, layer in zip(["embed", "blocks.0", "blocks.1", "blocks.2", "readout"], layers, strict=True):
            layer.weight.copy_(params[f"{name}.weight"])
            assert layer.bias is not None
            layer.bias.copy_(params[f"{name}.bias"])
    x = torch.randn(3, 1, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = nn.functional.pad(x, ((32 - side) // 2,) * 4)
    torch.testing.assert_close(net.forward(params, x), theirs(whole), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 13, 31), (3, 64, 32)])
def test_images_of_any_size_from_the_least_on_are_accepted(shape: tuple[int, int, int]) -> None:
    net = LeNet(shape, 4)
    params = net.init(torch.Generator().manual_seed(0))
    assert net.forward(params, torch.zeros(2, *shape)).shape == (2, 4)


def test_glorots_start_fills_its_bounds_and_has_no_bias() -> None:
    params = LeNet((1, 28, 28), 10, weight_init="glorot").init(torch.Generator().manual_seed(0))
    layers = [layer for layer in biotorchs(10) if isinstance(layer, nn.Conv2d | nn.Linear)]
    for name, layer in zip(["embed", "blocks.0", "blocks.1", "blocks.2", "readout"], layers, strict=True):
        outputs, inputs, *kernel = layer.weight.shape
        bound = sqrt(6 / ((inputs + outputs) * prod(kernel)))
        assert 0.9 * bound < float(params[f"{name}.weight"].abs().max()) <= bound
        assert not params[f"{name}.bias"].any()


def test_smaller_images_are_refused_with_the_least_size() -> None:
    with pytest.raises(ConfigError, match="expected images of at least 12×12 pixels, got 8×8"):
        LeNet((1, 8, 8), 10)
