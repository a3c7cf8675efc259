"""Sign symmetry: the signs are those of W, the magnitudes follow the variant, and its null has random signs."""

from __future__ import annotations

import pytest
import torch

from faudit.probes.weights import angle
from faudit.rules.sign_symmetry import SignSymmetry
from tests.support.nets import Setup


def variant(name: str, net: str = "resmlp") -> tuple[Setup, SignSymmetry]:
    setup = Setup("sign-symmetry", net, variant=name)
    assert isinstance(setup.rule, SignSymmetry)
    return setup, setup.rule


@pytest.mark.parametrize("name", ["usf", "frsf", "brsf"])
def test_the_feedback_has_the_signs_of_the_weights_and_magnitudes_of_its_own(name: str, net_name: str) -> None:
    setup, rule = variant(name, net_name)
    for weight, feedback in rule.feedback(setup.net, setup.params, setup.state).items():
        assert torch.equal(feedback.sign(), setup.params[weight].sign())
        assert torch.equal(feedback.abs(), setup.state[f"B.{weight}"])
        assert not torch.equal(feedback.abs(), setup.params[weight].abs())


def test_magnitudes_are_constant_fixed_or_drawn_after_every_update() -> None:
    for name in ("usf", "frsf", "brsf"):
        setup, rule = variant(name)
        constant = all(len(value.unique()) == 1 for value in setup.state.values())
        generator = torch.Generator().manual_seed(5)
        first, second = (
            rule.after_update(setup.net, setup.params, setup.state, setup.step(), generator=generator) for _ in range(2)
        )
        assert constant is (name == "usf")
        assert (first.keys() == setup.state.keys()) is (name == "brsf") and bool(first) is (name == "brsf")
        assert not any(torch.equal(first[key], second[key]) for key in first)
        assert all(bool((value >= 0).all()) for value in (*first.values(), *setup.state.values()))


def test_the_constant_is_the_root_mean_square_of_the_layers_own_initial_weights() -> None:
    setup, _ = variant("usf", "cnn")
    for name, value in setup.state.items():
        own = setup.params[name.removeprefix("B.")].detach().square().mean().sqrt()
        assert float(value.flatten()[0]) == pytest.approx(float(own), rel=0.1)


@pytest.mark.parametrize("name", ["usf", "frsf", "brsf"])
def test_under_the_null_the_signs_are_random_and_the_sizes_are_not(name: str) -> None:
    setup, rule = variant(name, "cnn")
    state = rule.fresh(setup.net, setup.state, setup.x, torch.Generator().manual_seed(6))
    assert state.keys() == setup.state.keys()
    feedback = rule.feedback(setup.net, setup.params, {key: value.double() for key, value in state.items()})
    for weight, value in feedback.items():
        agree = float((value.sign() == setup.params[weight].sign()).double().mean())
        assert abs(agree - 0.5) < 4 * 0.5 / value.numel() ** 0.5
        rms = [float(one.square().mean().sqrt()) for one in (value, setup.state[f"B.{weight}"])]
        assert rms[0] == pytest.approx(rms[1], rel=0.1)
    assert all(not torch.equal(one, two) for one, two in zip(state.values(), setup.state.values(), strict=True))


def test_the_weight_angle_is_that_of_the_feedback_that_is_used() -> None:
    setup, rule = variant("frsf")
    used = rule.feedback(setup.net, setup.params, setup.state)
    for name, forward in rule.forward_of(setup.net, setup.params).items():
        weight = name.removeprefix("B.")
        want = angle(used[weight], setup.params[weight].detach())
        assert want is not None and want < 60
        assert angle(setup.state[name], forward.detach()) == pytest.approx(want, rel=1e-12)


def test_signs_follow_the_weights_as_they_change() -> None:
    setup, _ = variant("frsf")
    before = setup.grads()
    name = "blocks.2.w2.weight"
    setup.params[name] = -setup.params[name].detach().requires_grad_()
    rule = setup.rule
    assert isinstance(rule, SignSymmetry)
    assert torch.equal(rule.feedback(setup.net, setup.params, setup.state)[name].sign(), setup.params[name].sign())
    after = setup.grads()
    assert not torch.equal(before["blocks.2.w1.weight"], after["blocks.2.w1.weight"])
