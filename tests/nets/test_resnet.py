"""ResNet against torch's own modules, in training and in evaluation; and its batches, statistics and resumption."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faudit.errors import ConfigError
from faudit.nets.resnet import ResNet


class Block(nn.Module):
    """A pre-activation block of torch's modules."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if stride == 2 else None

    def forward(self, h: Tensor) -> Tensor:
        z = torch.relu(self.norm1(h))
        f: Tensor = self.conv2(torch.relu(self.norm2(self.conv1(z))))
        return f + (h if self.skip is None else self.skip(z))


class Whole(nn.Module):
    """The net of torch's modules, with the names of ours."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        w = width
        self.embed = nn.Conv2d(2, w, 3, padding=1, bias=False)
        shapes = [(w, w), (w, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 4 * w), (4 * w, 4 * w)]
        self.blocks = nn.ModuleList(Block(*shape) for shape in shapes)
        self.readout = nn.Linear(4 * w, classes)
        self.readout.norm = nn.BatchNorm2d(4 * w)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        logits: Tensor = self.readout(torch.relu(self.readout.norm(h)).mean(dim=(2, 3)))  # type: ignore[operator]
        return logits


def pair() -> tuple[ResNet, dict[str, Tensor], Whole]:
    net, theirs = ResNet((2, 8, 6), 5, depth=6, width=3), Whole(3, 5).double()
    params = {name: value.double() for name, value in net.init(torch.Generator().manual_seed(0)).items()}
    missing, unexpected = theirs.load_state_dict(params, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)
    return net, params, theirs


def images(n: int) -> Tensor:
    return torch.randn(n, 2, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_logits_and_statistics_are_those_of_torchs_modules_in_training_and_evaluation() -> None:
    net, params, theirs = pair()
    for start in range(0, 12, 4):
        x = images(12)[start : start + 4]
        got = net.in_training(torch.Generator()).forward(params, x)
        torch.testing.assert_close(got, theirs(x), rtol=1e-10, atol=1e-12)
    theirs.eval()
    torch.testing.assert_close(net.forward(params, images(5)), theirs(images(5)), rtol=1e-10, atol=1e-12)
    for name, value in theirs.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(params[name], value, rtol=1e-10, atol=1e-12)


def test_the_skip_is_the_identity_inside_a_stage_and_there_is_none_where_the_image_is_halved() -> None:
    net, params, _ = pair()
    trace = net.trace(params, images(2))
    assert [tuple(h.shape[1:]) for h in trace.taps] == [
        (3, 8, 6), (3, 8, 6), (3, 8, 6), (6, 4, 3), (6, 4, 3), (12, 2, 2), (12, 2, 2),
    ]  # fmt: skip
    for l, (h, f, after) in enumerate(zip(trace.taps, trace.branches, trace.taps[1:], strict=False)):
        assert torch.equal(after, f if l in (2, 4) else h + f)


def test_resnet_20_has_its_270_thousand_weights() -> None:
    params = ResNet((3, 32, 32), 10, depth=9).init(torch.Generator().manual_seed(0))
    convolutions = 1 + 2 * 9
    assert sum(value.dim() == 4 and value.shape[-1] == 3 for value in params.values()) == convolutions
    assert sum(value.numel() for value in params.values() if value.dim() > 1) == pytest.approx(270_000, rel=0.02)
    assert float(params["blocks.8.conv2.weight"].std()) == pytest.approx((2 / 576) ** 0.5, rel=0.02)


def test_a_depth_that_three_stages_cannot_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="depth: expected a multiple of the 3 stages of net resnet, got 4"):
        ResNet((1, 8, 8), 10, depth=4)


@pytest.mark.parametrize(("side", "least"), [(4, 2), (3, 2), (5, 1), (8, 1)])
def test_a_batch_of_one_is_too_small_where_the_last_stage_has_one_pixel(side: int, least: int) -> None:
    net = ResNet((1, side, side), 3, width=2)
    params = net.init(torch.Generator().manual_seed(0))
    assert net.least_batch == least
    net.in_training(torch.Generator()).forward(params, torch.zeros(least, 1, side, side))
    if least == 2:
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            net.in_training(torch.Generator()).forward(params, torch.zeros(1, 1, side, side))
