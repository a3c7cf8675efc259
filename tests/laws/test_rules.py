"""Laws that every rule keeps on every net; a new rule or net passes them unchanged.

What a rule promises is asked of the rule: which parameters it trains, what it stores, whether it is block-local.
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.config import RunConfig
from faudit.experiment import prepare
from faudit.nets.net import is_buffer, part
from faudit.rules import RULES
from faudit.rules.direct import DirectRule
from faudit.rules.local import LocalRule
from tests.support.nets import TINY_NETS, Setup, tiny_dataset


def is_local(setup: Setup) -> bool:
    """Whether each block and the embedding learn from the signal at their own tap, cut from all others."""
    return isinstance(setup.rule, LocalRule)


def is_cut(setup: Setup) -> bool:
    """Whether the embedding learns from the signal at the first tap alone."""
    return is_local(setup) or isinstance(setup.rule, DirectRule)


def has_weights(setup: Setup, owner: str) -> bool:
    """Whether a part has weights; an embedding may have none."""
    return any(part(name) == owner for name in setup.params)


def weight_of(setup: Setup, owner: str) -> str:
    """The last matrix (or kernel) of a part."""
    return [name for name, value in setup.params.items() if part(name) == owner and value.ndim > 1][-1]


def loose(rule: str) -> dict[str, float]:
    """Settings under which no gradient is clipped."""
    return {"clip": 1e9} if "clip" in RULES.settings(rule) else {}


def embedding_credit(setup: Setup, credit: list[Tensor]) -> Tensor:
    return setup.rule.embedding_credit(setup.net, setup.state, credit[0])


def differ(before: list[Tensor], after: list[Tensor]) -> list[bool]:
    return [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]


def test_a_rule_trains_embedding_and_readout_and_all_blocks_or_none(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    weights = [name for name in setup.params if not is_buffer(name)]
    trained = {part(name) for name in weights if setup.rule.trains(name)}
    left = {part(name) for name in weights if not setup.rule.trains(name)}
    blocks = {f"blocks.{l}" for l in range(setup.net.blocks)}
    assert left == (set() if setup.rule.trains_blocks else blocks)
    assert trained == {part(name) for name in weights} - left
    assert not any(setup.rule.trains(name) for name in setup.params if is_buffer(name))


def test_a_step_gives_a_finite_gradient_for_exactly_what_the_rule_trains(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    grads = setup.grads()
    own = {name for name in setup.state if setup.rule.trains_state(name)}
    assert grads.keys() == {name for name in setup.params if setup.rule.trains(name)} | own
    for name, gradient in grads.items():
        assert gradient.shape == {**setup.params, **setup.state}[name].shape, name
        assert bool(gradient.isfinite().all()) and not gradient.requires_grad, name
    untaught = {name for name, gradient in grads.items() if not bool(gradient.any())}
    assert untaught == (out_of_reach(setup) if is_cut(setup) else set())


def out_of_reach(setup: Setup) -> set[str]:
    """The embedding's parameters that no signal at the first tap can teach, as the net spreads it over h_0."""
    own = {name: value for name, value in setup.params.items() if part(name) == "embed"}
    embedded = setup.net.embed(setup.params, setup.x)
    width = setup.net.tap_widths(setup.x)[0]
    signal = torch.randn(len(setup.x), width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    taught = (embedded * setup.net.spread(signal, embedded)).sum()
    grads = torch.autograd.grad(taught, list(own.values()), allow_unused=True) if own else ()
    return {name for name, gradient in zip(own, grads, strict=True) if gradient is None or not bool(gradient.any())}


def test_loss_and_logits_are_the_nets_own_under_every_rule(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    step = setup.step()
    logits = setup.net.forward(setup.params, setup.x)
    torch.testing.assert_close(step.logits, logits.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(step.loss, setup.net.loss(logits, setup.y).detach(), rtol=1e-12, atol=1e-14)


def test_new_feedback_changes_the_updates_that_its_credit_teaches_and_never_the_heads(
    rule_name: str, net_name: str
) -> None:
    """The planted defects this catches: feedback that is never used, and feedback that is drawn at every step.

    Of a rule without a credit it shows only that the feedback is used.
    """
    setup = Setup(rule_name, net_name)
    before, kept = setup.grads(), dict(setup.state)
    credit = [] if setup.rule.no_credit else setup.credit()
    embedding = [] if setup.rule.no_credit else [embedding_credit(setup, credit)]
    feedback = [name for name in kept if setup.rule.is_feedback(name)]
    head = weight_of(setup, "readout")
    reached: set[str] = set()
    for matrix in feedback:
        setup.state = {**kept, matrix: torch.randn_like(kept[matrix]).requires_grad_(kept[matrix].requires_grad)}
        after = setup.grads()
        others = {name for name in before if not torch.equal(before[name], after[name])}
        changed = {part(name) for name in others & setup.params.keys()}
        reached |= changed
        if setup.rule.no_credit:
            continue
        signals = differ(credit, setup.credit())
        blocks = range(setup.net.blocks) if setup.rule.trains_blocks else ()
        taught = {f"blocks.{l}" for l in blocks if signals[setup.net.taught_at(l)]}
        moved = differ(embedding, [embedding_credit(setup, setup.credit())])
        taught |= {"embed"} if moved[0] and has_weights(setup, "embed") else set()
        assert not is_local(setup) or "readout" not in changed, matrix
        assert torch.equal(before[head], after[head]), f"{matrix} teaches the head"
        assert changed or not taught, f"{matrix} is never used"
        assert ("embed" in changed) is ("embed" in taught), matrix
        assert not is_local(setup) or changed == taught, matrix
        # Feedback that trains may wait for its turn: it then changes its own update.
        assert others or any(signals) or not setup.rule.trains_blocks, f"{matrix} changes nothing"
    assert reached or not feedback or not has_weights(setup, "embed"), "feedback that teaches nothing"


def test_a_rule_with_feedback_teaches_no_part_below_the_last_block_what_bp_teaches_it(
    rule_name: str, net_name: str
) -> None:
    """The planted defect this catches: a rule that silently does plain BP."""
    setup = Setup(rule_name, net_name)
    exact, grads = setup.exact(), setup.grads()
    parts = ["embed", *(f"blocks.{l}" for l in range(setup.net.blocks - 1) if setup.rule.trains_blocks)]
    for owner in filter(lambda one: has_weights(setup, one), parts if setup.state else []):
        name = weight_of(setup, owner)
        cosine = F.cosine_similarity(grads[name].flatten(), exact[name].flatten(), dim=0)
        assert abs(float(cosine)) < 0.99, f"{rule_name} teaches {owner} what BP teaches it"


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
    plain = Setup(rule_name, net_name, 0, **loose(rule_name))
    if "penalty" not in RULES.settings(rule_name):
        pytest.skip("the rule has no penalty")
    with_penalty = Setup(rule_name, net_name, 0, **loose(rule_name), penalty=lam).grads()
    owner = f"blocks.{min(1, plain.net.blocks - 1)}" if plain.rule.trains_blocks else "embed"
    if not has_weights(plain, owner):
        pytest.skip("an embedding without weights")
    name = weight_of(plain, owner)
    added = (with_penalty[name] - plain.grads()[name]).flatten()[3]

    def penalty_at(shift: float) -> float:
        params = {key: value.detach().clone() for key, value in plain.params.items()}
        params[name].view(-1)[3] += shift
        branches = plain.net.trace(params, plain.x).branches
        counted = [f for l, f in enumerate(branches) if not is_local(plain) or owner == f"blocks.{l}"]
        return lam * sum(float(f.square().sum()) for f in counted) / len(plain.x)

    want = (penalty_at(1e-5) - penalty_at(-1e-5)) / 2e-5
    assert float(added) == pytest.approx(want, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("random_targets", [False, True])
def test_for_one_seed_every_rule_starts_alike_and_sees_the_same_batches(random_targets: bool) -> None:
    def start(rule: str, seed: int) -> tuple[dict[str, Tensor], list[tuple[Tensor, Tensor]]]:
        config = RunConfig(rule=rule, seed=seed, depth=2, width=5, batch_size=16, random_targets=random_targets)
        experiment = prepare(config, tiny_dataset())
        batches = [batch for _ in range(2) for batch in experiment.batches.epoch(experiment.state.generators)]
        return experiment.state.params, batches

    net = TINY_NETS["resmlp"]()
    first, *others = (rule for rule in RULES if not RULES[rule]().refusal(net))
    weights, batches = start(first, 3)
    for rule in others:
        other_weights, other_batches = start(rule, 3)
        assert all(torch.equal(weights[name], other_weights[name]) for name in weights), rule
        for (x, y), (other_x, other_y) in zip(batches, other_batches, strict=True):
            assert torch.equal(x, other_x) and torch.equal(y, other_y), rule
    other_weights, other_batches = start(first, 4)
    assert not torch.equal(weights["embed.weight"], other_weights["embed.weight"])
    assert not torch.equal(batches[0][0], other_batches[0][0])


def test_feedback_is_fixed_by_the_seed_alone(rule_name: str, net_name: str) -> None:
    first, again, other = (Setup(rule_name, net_name, seed=seed).state for seed in (0, 0, 1))
    assert first.keys() == again.keys() == other.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    feedback = [name for name in first if RULES[rule_name]().is_feedback(name)]
    assert not feedback or any(not torch.equal(first[name], other[name]) for name in feedback)
    for one, two in itertools.combinations([first[name] for name in feedback], 2):
        assert not (one.shape == two.shape and torch.equal(one, two)), "one matrix under two names"


def test_members_are_values(rule_name: str) -> None:
    assert RULES[rule_name]() == RULES[rule_name]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(RULES[rule_name](), "anything", 1.0)  # noqa: B010  # the type checker refuses the plain form
