"""MLP is the stack of torch's own layers that its docstring names, with each criterion, norm, dropout and start."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from faudit.errors import ConfigError
from faudit.nets.mlp import MLP
from faudit.probes.update import Update
from tests.support.nets import CLASSES, Setup, TinyNet

SHAPE = (1, 4, 4)
PHI: dict[str, nn.Module] = {
    "tanh": nn.Tanh(), "relu": nn.ReLU(), "sigmoid": nn.Sigmoid(), "linear": nn.Identity(),
}  # fmt: skip


def doubled(net: MLP, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: value.double() for name, value in net.init(torch.Generator().manual_seed(seed)).items()}


def batch(n: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(n, *SHAPE, dtype=torch.float64, generator=draw), torch.randint(CLASSES, (n,), generator=draw)


@pytest.mark.parametrize("phi", list(PHI))
@pytest.mark.parametrize("sizes", [(6,), (7, 6, 5)])
def test_the_logits_are_those_of_torchs_layers(phi: str, sizes: tuple[int, ...]) -> None:
    net = MLP(SHAPE, CLASSES, sizes=sizes, activation=phi)
    params, (x, _) = doubled(net), batch()
    h = x.flatten(1)
    for l in range(len(sizes)):
        h = PHI[phi](h @ params[f"blocks.{l}.weight"].T + params[f"blocks.{l}.bias"])
    logits = h @ params["readout.weight"].T + params["readout.bias"]
    torch.testing.assert_close(net.forward(params, x), logits, rtol=1e-12, atol=1e-14)


def test_the_taps_are_the_input_and_the_hidden_layers_and_every_hidden_layer_is_a_block() -> None:
    net = MLP((1, 28, 28), 10, sizes=(500,))
    assert net.blocks == 1 and net.tap_widths(torch.zeros(1, 1, 28, 28)) == [784, 500] and net.taught_at(0) == 1


@pytest.mark.parametrize(
    ("criterion", "theirs"),
    [
        ("ce", lambda z, y, t: nn.CrossEntropyLoss(reduction="none")(z, y)),
        ("bce", lambda z, y, t: nn.BCELoss(reduction="none")(torch.sigmoid(z), t).sum(1)),
        ("mse", lambda z, y, t: nn.MSELoss(reduction="none")(z, t).sum(1) / 2),
    ],
)
def test_each_criterion_is_its_formula(criterion: str, theirs: object) -> None:
    z, (_, y) = torch.randn(6, CLASSES, dtype=torch.float64), batch()
    targets = nn.functional.one_hot(y, CLASSES).double()
    want = theirs(z, y, targets)  # type: ignore[operator]
    got = MLP(SHAPE, CLASSES, criterion=criterion).loss(z, y, reduction="none")
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


def test_vectors_are_targets_of_the_squared_error_and_its_gradient_is_the_output_error() -> None:
    net, draw = MLP(SHAPE, CLASSES, criterion="mse"), torch.Generator().manual_seed(3)
    z, t = (torch.randn(6, CLASSES, dtype=torch.float64, generator=draw) for _ in range(2))
    z.requires_grad_()
    losses = net.loss(z, t.float(), reduction="none")
    torch.testing.assert_close(losses, ((z - t.float()) ** 2).sum(1) / 2, rtol=1e-12, atol=1e-14)
    (slope,) = torch.autograd.grad(losses.sum(), z)
    torch.testing.assert_close(net.output_error(z, t.float()), slope, rtol=1e-12, atol=1e-14)
    assert net.fits_vectors and not MLP(SHAPE, CLASSES, criterion="bce").fits_vectors


def test_a_large_logit_keeps_the_bce_finite() -> None:
    z = torch.tensor([[1e4, -1e4]])
    assert float(MLP(SHAPE, 2, criterion="bce").loss(z, torch.tensor([1]))) == pytest.approx(2e4)


@pytest.mark.parametrize(
    ("how", "spread", "largest", "bias"),
    [
        ("default", (1 / 3 / 300) ** 0.5, 300**-0.5, (1 / 3 / 300) ** 0.5),
        ("glorot", (2 / 700) ** 0.5, (6 / 700) ** 0.5, 0.0),
        ("he", (2 / 300) ** 0.5, (6 / 300) ** 0.5, 0.0),
        ("normal", (1 / 700) ** 0.5, None, (1 / 700) ** 0.5),
        ("small", 0.01 / 3**0.5, 0.01, 0.0),
    ],
)
def test_each_start_has_its_spread(how: str, spread: float, largest: float | None, bias: float) -> None:
    params = MLP((1, 10, 30), CLASSES, sizes=(400,), weight_init=how).init(torch.Generator().manual_seed(0))
    weight = params["blocks.0.weight"]
    assert weight.shape == (400, 300) and float(weight.std()) == pytest.approx(spread, rel=0.02)
    assert float(params["blocks.0.bias"].std()) == pytest.approx(bias, rel=0.15)
    if largest is not None:
        assert 0.99 * largest < float(weight.abs().max()) <= largest


def test_without_bias_there_is_none_and_the_weights_are_the_same() -> None:
    with_bias, without = doubled(MLP(SHAPE, CLASSES)), doubled(MLP(SHAPE, CLASSES, no_bias=True))
    assert set(without) == {name for name in with_bias if not name.endswith("bias")}
    assert all(torch.equal(value, with_bias[name]) for name, value in without.items())


def test_batch_norm_is_torchs_in_training_and_in_evaluation() -> None:
    net = MLP(SHAPE, CLASSES, sizes=(8,), batch_norm=True)
    params, (x, _) = doubled(net), batch()
    params["blocks.0.norm.weight"] = torch.linspace(0.5, 2, 8, dtype=torch.float64)
    params["blocks.0.norm.bias"] = torch.linspace(-1, 1, 8, dtype=torch.float64)
    theirs = nn.BatchNorm1d(8).double()
    with torch.no_grad():
        theirs.weight.copy_(params["blocks.0.norm.weight"])
        theirs.bias.copy_(params["blocks.0.norm.bias"])
    z = x.flatten(1) @ params["blocks.0.weight"].T + params["blocks.0.bias"]
    for _ in range(3):
        in_training = net.in_training(torch.Generator()).branch(params, 0, x.flatten(1))
        torch.testing.assert_close(in_training, torch.tanh(theirs(z)), rtol=1e-12, atol=1e-14)
    assert isinstance(theirs.running_mean, torch.Tensor) and isinstance(theirs.running_var, torch.Tensor)
    torch.testing.assert_close(params["blocks.0.norm.running_mean"], theirs.running_mean)
    torch.testing.assert_close(params["blocks.0.norm.running_var"], theirs.running_var)
    theirs.eval()
    torch.testing.assert_close(net.branch(params, 0, x.flatten(1)), torch.tanh(theirs(z)), rtol=1e-12, atol=1e-14)


def test_dropout_drops_its_share_of_each_hidden_layer_and_keeps_the_mean() -> None:
    net = MLP(SHAPE, CLASSES, sizes=(400, 300), activation="sigmoid", dropout=0.2)
    params, (x, _) = doubled(net), batch(50)
    plain = net.trace(params, x)
    for l, h in enumerate(net.in_training(torch.Generator().manual_seed(0)).trace(params, x).taps[1:], start=1):
        assert float((h == 0).double().mean()) == pytest.approx(0.2, abs=0.01), f"tap {l}"
        assert float(h.mean()) == pytest.approx(float(plain.taps[l].mean()), rel=0.02), f"tap {l}"


def test_the_width_of_a_tap_is_known_in_training_without_drawing() -> None:
    net = MLP((1, 4, 5), CLASSES, sizes=(5,), dropout=0.5, batch_norm=True)
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    assert net.in_training(generator).tap_widths(torch.zeros(3, 1, 4, 5)) == [20, 5]
    assert torch.equal(state, generator.get_state())


def test_with_frozen_blocks_only_the_readout_learns() -> None:
    assert set(Setup("frozen-dfa", "mlp").grads()) == {"readout.weight", "readout.bias"}


def test_a_frozen_block_keeps_its_weights_and_its_norm_still_follows_the_data() -> None:
    setup = Setup("frozen-bp", "mlp-norm")
    before = setup.params["blocks.0.norm.running_mean"].clone()
    setup.net = setup.net.in_training(torch.Generator().manual_seed(0))
    setup.grads()
    assert not torch.equal(before, setup.params["blocks.0.norm.running_mean"])


def test_no_hidden_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="sizes: expected at least one hidden layer, got none"):
        MLP(SHAPE, CLASSES, sizes=())


def test_the_update_of_each_part_is_aligned_with_its_part() -> None:
    for net in ("mlp", "mlp-one", "mlp-norm"):
        row = Update().measure(Setup("bp", net).reading())
        assert row["update_cosines"][0] is None and row["update_ratios"][0] is None
        assert row["update_cosines"][1:] == pytest.approx([1.0] * (TinyNet(net).net.blocks + 1))
