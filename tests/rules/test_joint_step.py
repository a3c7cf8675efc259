"""One joint gradient and one optimizer give the same weights as the study's separate pass and optimizer per part."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faudit.nets.net import is_buffer, part
from tests.support.nets import Setup

STEPS = 6


def copies(setup: Setup) -> dict[str, Tensor]:
    """The weights, to be trained apart."""
    return {name: value.detach().clone().requires_grad_(value.requires_grad) for name, value in setup.params.items()}


def separate_steps(setup: Setup, make: type[torch.optim.Optimizer], clip: float) -> dict[str, Tensor]:
    """The study's way: per part its own pass, clipping and optimizer, all taken at the weights before the step."""
    net, state = setup.net, setup.state
    params = copies(setup)
    trained = {name: value for name, value in params.items() if value.requires_grad}
    parts = sorted({part(name) for name in trained})
    own = {key: [value for name, value in trained.items() if part(name) == key] for key in parts}
    optimizers = {key: make(own[key], lr=0.05, weight_decay=0.1) for key in parts}  # type: ignore[call-arg]
    for step in range(STEPS):
        x, y = batch(setup, step)
        with torch.no_grad():
            taps = net.trace(params, x).taps
        logits = net.readout(params, taps[-1]).detach().requires_grad_()
        (error,) = torch.autograd.grad(net.loss(logits, y, reduction="sum"), logits)
        if type(setup.rule).__name__ == "FA":
            last = taps[-1].clone().requires_grad_()
            (gradient,) = torch.autograd.grad(net.loss(net.readout(params, last), y), last)
            credit = [net.tap(gradient)]
            for l in reversed(range(net.signals - 1)):
                credit.insert(0, credit[0] @ state[f"B.{l}"].T)
            own_feedback = state.get("B.embed")
        else:
            credit = [error @ state[f"B.{l}"].T for l in range(net.signals)]
            own_feedback = None
        first = credit[0] if own_feedback is None else credit[0] @ own_feedback.T
        *signal, embedding = (a / (a.square().mean(1, keepdim=True).sqrt() + 1e-6) for a in (*credit, first))
        for l in range(net.blocks):
            optimizers[f"blocks.{l}"].zero_grad()
            branch = net.branch(params, l, taps[l].detach())
            taught = net.spread(signal[net.taught_at(l)], branch)
            local = (branch * taught).flatten(1).sum(1).mean()
            (local + 0.02 * branch.square().flatten(1).sum(1).mean()).backward()
            torch.nn.utils.clip_grad_norm_(own[f"blocks.{l}"], clip)
        if "embed" in own:  # an embedding may have no weights
            optimizers["embed"].zero_grad()
            embedded = net.embed(params, x)
            (embedded * net.spread(embedding, embedded)).flatten(1).sum(1).mean().backward()
        optimizers["readout"].zero_grad()
        net.loss(net.readout(params, taps[-1].detach()), y).backward()
        for optimizer in optimizers.values():
            optimizer.step()
    return params


def joint_steps(setup: Setup, make: type[torch.optim.Optimizer]) -> dict[str, Tensor]:
    params = copies(setup)
    optimizer = make([value for value in params.values() if value.requires_grad], lr=0.05, weight_decay=0.1, fused=True)  # type: ignore[call-arg]
    for step in range(STEPS):
        for name, gradient in setup.rule.step(setup.net, params, setup.state, *batch(setup, step)).grads.items():
            params[name].grad = gradient
        optimizer.step()
    return params


def batch(setup: Setup, step: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(100 + step)
    x = torch.randn(9, *setup.net.sample_shape, dtype=torch.float64, generator=draw)
    return x, torch.randint(setup.net.classes, (9,), generator=draw)


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("rule", ["dfa", "fa"])
def test_joint_and_separate_training_give_the_same_weights(
    rule: str, net_name: str, make: type[torch.optim.Optimizer]
) -> None:
    clip = 0.5
    setup = Setup(rule, net_name, clip=clip, penalty=0.02)
    joint, separate = joint_steps(setup, make), separate_steps(setup, make, clip)
    for name, value in separate.items():
        torch.testing.assert_close(joint[name], value, rtol=1e-9, atol=1e-9, msg=name)  # Adam divides rounding by ε
    moved = {name for name, value in separate.items() if not torch.equal(value, setup.params[name])}
    assert moved == {name for name in separate if not is_buffer(name)}, (
        "the test would prove nothing of what does not train"
    )
