"""Laws that every rule keeps on every net; a new rule or net passes them unchanged."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from faudit.config import RunConfig
from faudit.experiment import prepare
from faudit.nets.net import part
from faudit.nets.resmlp import ResMLP
from faudit.rules import RULES
from faudit.rules.rule import LocalRule
from tests.support.nets import Setup, tiny_dataset


def test_a_step_gives_a_finite_gradient_for_exactly_what_the_rule_trains(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    grads = setup.grads()
    assert grads.keys() == {name for name in setup.params if setup.rule.trains(name)}
    for name, gradient in grads.items():
        assert gradient.shape == setup.params[name].shape, name
        assert bool(gradient.isfinite().all()) and not gradient.requires_grad, name
    untaught = {name for name, gradient in grads.items() if not bool(gradient.any())}
    local_to_cls = net_name == "vit-cls" and isinstance(setup.rule, LocalRule)
    assert untaught == (
        {"embed.weight", "embed.bias"} if local_to_cls else set()
    )  # the class token sees no patch at h_0


def test_bp_is_autograd(net_name: str) -> None:
    setup = Setup("bp", net_name)
    loss = F.cross_entropy(setup.net.forward(setup.params, setup.x), setup.y)
    want = torch.autograd.grad(loss, list(setup.params.values()))
    step = setup.rule.step(setup.net, setup.params, setup.state, setup.x, setup.y)
    assert torch.equal(step.loss, loss.detach())
    for name, gradient in zip(setup.params, want, strict=True):
        torch.testing.assert_close(step.grads[name], gradient, rtol=1e-12, atol=1e-15, msg=name)


def test_loss_and_logits_are_the_nets_own_under_every_rule(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    step = setup.rule.step(setup.net, setup.params, setup.state, setup.x, setup.y)
    logits = setup.net.forward(setup.params, setup.x)
    torch.testing.assert_close(step.logits, logits.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(step.loss, F.cross_entropy(logits, setup.y).detach(), rtol=1e-12, atol=1e-14)


def test_new_feedback_changes_the_updates_of_rules_that_have_feedback_and_of_no_other(
    rule_name: str, net_name: str
) -> None:
    setup = Setup(rule_name, net_name)
    before = setup.grads()
    for matrix in setup.state:
        swapped = dict(setup.state)
        swapped[matrix] = torch.randn_like(swapped[matrix])
        after = setup.rule.step(setup.net, setup.params, swapped, setup.x, setup.y).grads
        changed = {part(name) for name in before if not torch.equal(before[name], after[name])}
        if rule_name == "frozen-dfa":
            assert changed == ({"embed"} if matrix == "B.0" else set()), matrix
        else:
            assert changed and "readout" not in changed, f"{matrix} is never used"
    uses_feedback = bool(setup.state)
    assert uses_feedback == (rule_name not in ("bp", "frozen-bp"))


def test_every_block_of_a_local_rule_listens_to_feedback_or_to_the_exact_gradient(net_name: str) -> None:
    """The planted defect this catches: a rule that silently does plain BP."""
    exact = Setup("bp", net_name).grads()
    for rule in ("dfa", "fa"):
        setup = Setup(rule, net_name, clip=1e9)
        grads = setup.grads()
        for block in range(setup.net.blocks - 1):
            name = weight_of(setup, block)
            cosine = F.cosine_similarity(grads[name].flatten(), exact[name].flatten(), dim=0)
            assert abs(float(cosine)) < 0.99, f"{rule} teaches block {block} what BP teaches it"


def test_a_step_writes_nothing(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    held = {**setup.params, **setup.state, "x": setup.x, "y": setup.y}
    copies = {name: value.detach().clone() for name, value in held.items()}
    random = torch.get_rng_state()
    setup.grads()
    assert all(torch.equal(value, copies[name]) for name, value in held.items())
    assert all(value.grad is None for value in setup.params.values())
    assert torch.equal(random, torch.get_rng_state())


def test_the_same_state_and_batch_give_the_same_bits(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    first, second = setup.grads(), setup.grads()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_penalty_adds_its_own_gradient_and_nothing_else(rule_name: str, net_name: str) -> None:
    """Held against a numerical derivative of λ·mean Σ f²; where the graph is cut, of each block's own share."""
    lam = 0.1
    plain = Setup(rule_name, net_name, 0, **({"clip": 1e9} if "clip" in fields_of(rule_name) else {}))
    rule = dataclasses.replace(plain.rule, penalty=lam)
    with_penalty = rule.step(plain.net, plain.params, plain.state, plain.x, plain.y).grads
    before = plain.grads()
    name = "embed.weight" if rule_name.startswith("frozen") else weight_of(plain, 1)
    added = (with_penalty[name] - before[name]).flatten()[3]

    def penalty_at(shift: float) -> float:
        params = {key: value.detach().clone() for key, value in plain.params.items()}
        params[name].view(-1)[3] += shift
        branches = plain.net.trace(params, plain.x).branches
        counted = branches if rule_name in ("bp", "frozen-bp") else branches[1:2]
        return lam * sum(float(f.square().sum()) for f in counted) / len(plain.x)

    want = 0.0 if rule_name in ("frozen-dfa", "frozen-fa") else (penalty_at(1e-5) - penalty_at(-1e-5)) / 2e-5
    assert float(added) == pytest.approx(want, rel=1e-4, abs=1e-9)


def weight_of(setup: Setup, block: int) -> str:
    """The last matrix (or kernel) of a block."""
    names = [name for name, value in setup.params.items() if part(name) == f"blocks.{block}" and value.ndim > 1]
    return names[-1]


def fields_of(rule: str) -> set[str]:
    return {entry.name for entry in dataclasses.fields(RULES[rule])}


@pytest.mark.parametrize("random_targets", [False, True])
def test_for_one_seed_every_rule_starts_alike_and_sees_the_same_batches(random_targets: bool) -> None:
    def start(rule: str, seed: int) -> tuple[dict[str, torch.Tensor], list[tuple[torch.Tensor, torch.Tensor]]]:
        config = RunConfig(rule=rule, seed=seed, depth=2, width=5, batch_size=16, random_targets=random_targets)
        experiment = prepare(config, tiny_dataset())
        batches = [batch for _ in range(2) for batch in experiment.batches.epoch(experiment.state.generators)]
        return experiment.state.params, batches

    weights, batches = start("bp", 3)
    for rule in RULES:
        other_weights, other_batches = start(rule, 3)
        assert all(torch.equal(weights[name], other_weights[name]) for name in weights), rule
        for (x, y), (other_x, other_y) in zip(batches, other_batches, strict=True):
            assert torch.equal(x, other_x) and torch.equal(y, other_y), rule
    other_weights, other_batches = start("bp", 4)
    assert not torch.equal(weights["embed.weight"], other_weights["embed.weight"])
    assert not torch.equal(batches[0][0], other_batches[0][0])


@pytest.mark.parametrize("rule", ["dfa", "fa", "frozen-dfa"])
def test_feedback_is_fixed_by_the_seed_alone(rule: str) -> None:
    first, again, other = (Setup(rule, "resmlp", seed=seed).state for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)
    assert not torch.equal(first["B.0"], first["B.1"])


def test_feedback_has_the_stated_spread() -> None:
    net = ResMLP((1, 8, 8), 10, depth=3, width=400)
    for rule, spread in (("dfa", 10**-0.5), ("fa", 400**-0.5)):
        state = RULES[rule]().init(net, torch.zeros(1, 1, 8, 8), torch.Generator().manual_seed(1))
        for matrix in state.values():
            assert float(matrix.std()) == pytest.approx(spread, rel=0.05)
            assert abs(float(matrix.mean())) < 0.1 * spread


def test_members_are_values_whose_fields_are_settings(rule_name: str) -> None:
    settings = {entry.name for entry in dataclasses.fields(RunConfig)}
    assert fields_of(rule_name) <= settings
    assert RULES[rule_name]() == RULES[rule_name]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        RULES[rule_name]().penalty = 1.0  # type: ignore[misc]
