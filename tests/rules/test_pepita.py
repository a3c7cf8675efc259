"""PEPITA: the step by hand in numpy, one mask for both passes, and the nets that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import prepare
from faudit.nets.mlp import MLP
from faudit.nets.resmlp import ResMLP
from faudit.rules.pepita import Pepita
from tests.support.nets import CLASSES, TINY_NETS, Setup, tiny_dataset
from tests.support.runs import survives_a_stop

Array = np.ndarray[Any, np.dtype[np.float64]]
REFUSED = {"cnn": "feature maps", "vit": "tokens", "vit-cls": "tokens", "mlp-norm": "BatchNorm"}


def error_of(logits: Array, y: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True) - np.eye(logits.shape[1])[y])


def mlp_pass(params: dict[str, Array], x: Array, masks: list[Array]) -> tuple[list[Array], Array]:
    states = [x]
    for l, mask in enumerate(masks):
        z = states[-1] @ params[f"blocks.{l}.weight"].T + params[f"blocks.{l}.bias"]
        states.append(np.maximum(z, 0.0) * mask)
    return states, states[-1] @ params["readout.weight"].T + params["readout.bias"]


def test_the_step_on_an_mlp_is_the_papers_formula_with_one_mask_for_both_passes() -> None:
    """A mask drawn again, a derivative of the ReLU, or clean activity in place of the second pass's gives others."""
    setup, rate = Setup("pepita", "mlp-relu"), 0.4
    bare = setup.net
    assert isinstance(bare, MLP)
    net = MLP(bare.sample_shape, CLASSES, sizes=bare.sizes, activation="relu", dropout=rate)
    step = setup.rule.step(
        net.in_training(torch.Generator().manual_seed(5)), setup.params, setup.state, setup.x, setup.y
    )
    draw, n = torch.Generator().manual_seed(5), len(setup.x)
    masks = [(torch.rand(n, size, generator=draw) >= rate).double().numpy() / (1.0 - rate) for size in net.sizes]
    params = {name: value.detach().numpy() for name, value in setup.params.items()}
    x, y = setup.x.numpy().reshape(n, -1), setup.y.numpy()
    first, logits = mlp_pass(params, x, masks)
    second, later = mlp_pass(params, x + error_of(logits, y) @ setup.state["B.input"].numpy().T, masks)
    want = {"readout.weight": error_of(later, y).T @ second[-1] / n, "readout.bias": error_of(later, y).mean(0)}
    for l in range(net.blocks):
        change = first[l + 1] - second[l + 1]
        want |= {f"blocks.{l}.weight": change.T @ second[l] / n, f"blocks.{l}.bias": change.mean(0)}
    assert step.grads.keys() == want.keys()
    for name, value in want.items():
        assert value.any(), name
        np.testing.assert_allclose(step.grads[name].numpy(), value, rtol=1e-9, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(step.logits.numpy(), logits, rtol=1e-12)


def test_the_step_on_a_residual_net_is_the_difference_of_states_carried_into_each_block() -> None:
    setup, n = Setup("pepita", "student"), 7
    params = {name: value.detach().numpy() for name, value in setup.params.items()}
    x, y = setup.x.numpy().reshape(n, -1), setup.y.numpy()

    def run(x: Array) -> tuple[list[Array], list[Array], Array]:
        states, hidden = [x @ params["embed.weight"].T + params["embed.bias"]], []
        for l in range(setup.net.blocks):
            hidden.append(np.tanh(states[-1] @ params[f"blocks.{l}.w1.weight"].T + params[f"blocks.{l}.w1.bias"]))
            branch = hidden[-1] @ params[f"blocks.{l}.w2.weight"].T + params[f"blocks.{l}.w2.bias"]
            states.append(states[-1] + branch)
        return states, hidden, states[-1] @ params["readout.weight"].T + params["readout.bias"]

    first, _, logits = run(x)
    modulated = x + error_of(logits, y) @ setup.state["B.input"].numpy().T
    second, hidden, later = run(modulated)
    changes = [(one - two) / n for one, two in zip(first, second, strict=True)]
    want = {"embed.weight": changes[0].T @ modulated, "embed.bias": changes[0].sum(0)}
    for l in range(setup.net.blocks):
        inside = changes[l + 1] @ params[f"blocks.{l}.w2.weight"] * (1.0 - hidden[l] ** 2)
        want |= {f"blocks.{l}.w2.weight": changes[l + 1].T @ hidden[l], f"blocks.{l}.w2.bias": changes[l + 1].sum(0)}
        want |= {f"blocks.{l}.w1.weight": inside.T @ second[l], f"blocks.{l}.w1.bias": inside.sum(0)}
    want |= {"readout.weight": error_of(later, y).T @ second[-1] / n, "readout.bias": error_of(later, y).mean(0)}
    got = setup.grads()
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value, rtol=1e-9, atol=1e-14, err_msg=name)


def test_without_feedback_no_block_learns_and_the_readout_learns_as_under_bp() -> None:
    setup, bp = Setup("pepita", "mlp-relu"), Setup("bp", "mlp-relu")
    setup.state = {"B.input": torch.zeros_like(setup.state["B.input"])}
    for name, gradient in setup.grads().items():
        if name.startswith("blocks."):
            assert not bool(gradient.any()), name
        else:
            torch.testing.assert_close(gradient, bp.grads()[name], rtol=1e-12, atol=1e-15)


def test_feedback_is_he_uniform_times_its_size() -> None:
    net = ResMLP((3, 8, 8), 10)
    bound = 0.2 * (6.0 / 192) ** 0.5
    matrix = Pepita(input_feedback=0.2).init(net, torch.zeros(1, 3, 8, 8), torch.Generator().manual_seed(1))["B.input"]
    assert matrix.shape == (192, 10) and 0.98 * bound < float(matrix.abs().max()) <= bound
    assert float(matrix.std()) == pytest.approx(bound / 3**0.5, rel=0.05)


def test_what_it_cannot_train_is_refused_in_one_line() -> None:
    found = {name: reason for name, make in TINY_NETS.items() if (reason := Pepita().refusal(make()))}
    assert found.keys() >= REFUSED.keys()
    assert all(word in found[name] for name, word in REFUSED.items())
    assert not {"mlp", "mlp-relu", "mlp-one", "resmlp", "resmlp-no-residual", "student"} & found.keys()
    with pytest.raises(ConfigError, match=r"rule pepita cannot train net cnn: .*not for feature maps") as caught:
        prepare(RunConfig(rule="pepita", net="cnn"), tiny_dataset())
    assert "\n" not in str(caught.value)


def test_a_stop_changes_nothing_of_masks_and_momentum(tmp_path: Path) -> None:
    config = RunConfig(
        rule="pepita", net="mlp", sizes=(32,), activation="relu", dropout=0.1, optimizer="sgd", momentum=0.9, lr=0.05,
        epochs=4, batch_size=32,
    )  # fmt: skip
    survives_a_stop(config, tmp_path)
