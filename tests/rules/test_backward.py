"""Weight-level rules: B = W is BP to the last bit, the derivatives by hand, and what cannot be served."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import prepare
from faudit.nets.net import Params
from faudit.nets.resmlp import ResMLP
from faudit.rules import FROZEN, RULES
from faudit.rules.backward import DRAWS, WeightRule, carrying, replaceable
from faudit.rules.fa_weights import FAWeights
from tests.support.nets import RESMLPS, TINY_NETS, Setup, tiny_dataset
from tests.support.oracle import Array
from tests.support.rules_by_hand import oracle_of

WEIGHT_RULES = [name for name in RULES if name not in RULES.controls and issubclass(RULES[name], WeightRule)]


def with_feedback_of_bp(setup: Setup) -> Setup:
    """The state in which a rule sends every error back through the weights themselves."""
    rule = setup.rule
    setup.state = {
        name: weight.detach().clone().requires_grad_(rule.trains_state(name))
        for name, weight in rule.forward_of(setup.net, setup.params).items()
    }
    return setup


@pytest.mark.parametrize("name", WEIGHT_RULES)
def test_with_the_weights_as_feedback_every_update_and_credit_is_that_of_bp(name: str, net_name: str) -> None:
    """For sign symmetry the state is |W|, and its signs are those of W."""
    ours, bp = with_feedback_of_bp(Setup(name, net_name)), Setup("bp", net_name)
    got, want = ours.grads(), bp.grads()
    for parameter in want:
        torch.testing.assert_close(got[parameter], want[parameter], rtol=1e-12, atol=1e-15, msg=parameter)
    for mine, exact in zip(ours.credit(), bp.credit(), strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", WEIGHT_RULES)
def test_every_weight_has_feedback_of_its_shape_but_those_that_read_the_data(name: str, net_name: str) -> None:
    setup = Setup(name, net_name)
    matrices = [key for key, value in setup.params.items() if key.endswith("weight") and value.dim() > 1]
    first = "embed.weight" if "embed.weight" in matrices else "blocks.0.weight"
    assert set(setup.state) == {f"B.{key}" for key in matrices if key != first}
    assert all(value.shape == setup.params[key.removeprefix("B.")].shape for key, value in setup.state.items())


def effective(setup: Setup) -> dict[str, Array]:
    assert isinstance(setup.rule, WeightRule)
    return {name: value.numpy() for name, value in setup.rule.feedback(setup.net, setup.params, setup.state).items()}


@pytest.mark.parametrize("prefix", ["", FROZEN])
@pytest.mark.parametrize("name", WEIGHT_RULES)
@pytest.mark.parametrize("net", RESMLPS)
def test_the_step_equals_the_derivative_by_hand(prefix: str, name: str, net: str) -> None:
    setup = Setup(prefix + name, net)
    oracle = replace(oracle_of(setup), feedback=effective(setup))
    oracle.forward(setup.x.numpy())
    want = oracle.bp(oracle.error(setup.y.numpy()) / len(setup.y))[0]
    got = setup.grads()
    assert got.keys() >= {key for key in want if setup.rule.trains(key)}
    for key in setup.params.keys() & got:
        np.testing.assert_allclose(got[key].numpy(), want[key], rtol=1e-9, atol=1e-13, err_msg=key)


@pytest.mark.parametrize("name", WEIGHT_RULES)
@pytest.mark.parametrize("net", RESMLPS)
def test_the_credit_is_the_pseudo_gradient_of_each_samples_own_loss(name: str, net: str) -> None:
    setup = Setup(name, net)
    oracle = replace(oracle_of(setup), feedback=effective(setup))
    oracle.forward(setup.x.numpy())
    taps = oracle.bp(oracle.error(setup.y.numpy()))[1]
    credit = setup.credit()
    assert len(credit) == setup.net.signals
    for got, want in zip(credit, taps, strict=False):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_sends_its_error_back_through_its_feedback_by_explicit_loops(groups: int) -> None:
    draw = torch.Generator().manual_seed(3)
    stride, padding, dilation = (2, 1), (1, 2), (1, 2)
    x = torch.randn(2, 4, 6, 7, dtype=torch.float64, generator=draw).requires_grad_()
    weight = torch.randn(6, 4 // groups, 3, 2, dtype=torch.float64, generator=draw).requires_grad_()
    feedback = torch.randn(weight.shape, dtype=torch.float64, generator=draw)
    bias = torch.randn(6, dtype=torch.float64, generator=draw).requires_grad_()
    z = F.conv2d(x, carrying(weight, feedback), bias, stride, padding, dilation, groups)
    assert torch.equal(z, F.conv2d(x, weight, bias, stride, padding, dilation, groups))
    signal = torch.randn(z.shape, dtype=torch.float64, generator=draw)
    got = torch.autograd.grad(z, (x, weight, bias), signal)
    of_x, of_weight = np.zeros((2, 4, 6, 7)), np.zeros(weight.shape)
    e, values, back = signal.numpy(), x.detach().numpy(), feedback.numpy()
    for (n, o, i, j), error in np.ndenumerate(e):
        for c, u, v in np.ndindex(*weight.shape[1:]):
            channel = o // (6 // groups) * (4 // groups) + c
            row, column = i * stride[0] + u * dilation[0] - padding[0], j * stride[1] + v * dilation[1] - padding[1]
            if 0 <= row < 6 and 0 <= column < 7:
                of_x[n, channel, row, column] += error * back[o, c, u, v]
                of_weight[o, c, u, v] += error * values[n, channel, row, column]
    for one, other in zip(got, (of_x, of_weight, e.sum((0, 2, 3))), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-11, atol=1e-12)


def test_fixed_feedback_is_drawn_like_the_layer_itself_unless_told_otherwise() -> None:
    net = ResMLP((1, 8, 8), 10, depth=2, width=300, w2_std=0.03)
    fans = {"B.blocks.0.w1.weight": (300, 300), "B.blocks.1.w2.weight": (300, 300), "B.readout.head.weight": (300, 10)}
    for how in ("layer", *DRAWS):
        drawn = FAWeights(feedback_init=how, feedback_scale=0.5).init(
            net, torch.zeros(1, 1, 8, 8), torch.Generator().manual_seed(1)
        )
        for name, (inputs, outputs) in fans.items():
            layer = 0.03 if "w2" in name else inputs**-0.5 / 3**0.5
            glorot = (2 / (inputs + outputs)) ** 0.5
            std = {"layer": layer, "uniform": 3**-0.5, "normal": 1.0}.get(how, glorot) * 0.5
            assert float(drawn[name].std()) == pytest.approx(std, rel=0.06), (how, name)
            flat = "uniform" in how or (how == "layer" and "w2" not in name)
            assert (float(drawn[name].abs().max()) <= std * 3**0.5 * 1.06) is flat, (how, name)


def test_the_fans_of_a_kernel_count_its_window() -> None:
    drawn = FAWeights(feedback_init="xavier-uniform").init(
        TINY_NETS["cnn"](), torch.zeros(1, 1, 4, 4), torch.Generator().manual_seed(1)
    )
    assert float(drawn["B.blocks.1.weight"].abs().max()) == pytest.approx((6 / (9 * (64 + 128))) ** 0.5, rel=0.01)


@dataclass(frozen=True)
class Bare(ResMLP):
    """Somebody's own net, whose head is a matrix product."""

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return h @ params["readout.head.weight"].T


@dataclass(frozen=True)
class Scaled(ResMLP):
    """Somebody's own net, which also uses the value of a weight that it has in a linear layer."""

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return super().readout(params, h) * params["readout.head.weight"].sum()


@dataclass(frozen=True)
class Shallow(ResMLP):
    """Somebody's own net with one layer, and a head that has no weights."""

    @property
    def blocks(self) -> int:
        return 0

    def readout(self, params: Params, h: Tensor) -> Tensor:
        return h[:, : self.classes]


@dataclass(frozen=True)
class Padded(ResMLP):
    """Somebody's own net, whose branch is a convolution padded by a word."""

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        kernel = params[f"blocks.{block}.w2.weight"]
        rows = F.conv2d(h[:, None, None], kernel[:, :, None, None][:1, :1], padding="same")
        return super().branch(params, block, h) + rows[:, 0, 0]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Bare, "it uses a weight in '__get__'"),
        (Scaled, "it uses a weight in 'sum'"),
        (Shallow, "it has no weight above another one, so no error is sent back"),
        (Padded, "it uses a weight in '__getitem__'"),
    ],
)
def test_a_net_with_a_backward_pass_that_cannot_be_replaced_is_refused_with_the_reason(
    net: type[ResMLP], reason: str
) -> None:
    said = FAWeights().refusal(net((1, 4, 4), 5, depth=2, width=6))
    assert said is not None and said.startswith(reason)


def test_a_convolution_padded_by_a_word_is_refused() -> None:
    x, kernel = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 3, 3)
    with pytest.raises(ConfigError, match="it pads a convolution by 'same', and feedback needs the padding as a num"):
        F.conv2d(x, carrying(kernel, kernel), padding="same")


@pytest.mark.parametrize("name", WEIGHT_RULES)
def test_every_net_of_ours_is_served(name: str, net_name: str) -> None:
    net = TINY_NETS[net_name]()
    assert RULES[name]().refusal(net) is None and replaceable(net)


@pytest.mark.parametrize("name", WEIGHT_RULES)
def test_one_class_in_a_batch_and_a_batch_of_one_are_batches_like_others(name: str, net_name: str) -> None:
    setup = Setup(name, net_name)
    setup.y = torch.zeros_like(setup.y)
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())
    setup.x, setup.y = setup.x[:1], setup.y[:1]
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())


@pytest.mark.parametrize("name", WEIGHT_RULES)
def test_rules_that_train_or_change_their_feedback_say_so(name: str) -> None:
    experiment = prepare(RunConfig(rule=name, depth=2, width=5, batch_size=16), tiny_dataset())
    trained = {key for key, value in experiment.state.rule_state.items() if value.requires_grad}
    assert not trained or experiment.rule.learns_feedback
