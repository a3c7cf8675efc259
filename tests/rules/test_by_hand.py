"""Every rule's step against derivatives written out by hand in numpy, float64, on every ResMLP variant."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import dfa_credit, expected, fa_credit, oracle_of

VARIANTS = RESMLPS
SETTINGS = [{}, {"penalty": 0.3}]


@pytest.mark.parametrize("net", VARIANTS)
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "penalty"])
def test_step_equals_the_derivative_by_hand(rule_name: str, net: str, settings: dict[str, float]) -> None:
    local = rule_name not in ("bp", "frozen-bp")
    extra = {"clip": 0.7, "credit_eps": 1e-3} if local else {}  # a small clip so that it acts, an ε that shows
    setup = Setup(rule_name, net, 0, **settings, **extra)
    want = expected(rule_name, setup, settings.get("penalty", 0.0), eps=1e-3, clip=0.7)
    got = setup.grads()
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("net", VARIANTS)
def test_the_clip_in_that_test_really_acts_on_some_blocks(net: str) -> None:
    loose = Setup("dfa", net, clip=1e9, credit_eps=1e-3).grads()
    tight = Setup("dfa", net, clip=0.7, credit_eps=1e-3).grads()
    changed = {name for name in loose if not torch.equal(loose[name], tight[name])}
    assert changed and all(name.startswith("blocks.") for name in changed)


@pytest.mark.parametrize("net", VARIANTS)
def test_bp_credit_is_the_gradient_of_each_samples_own_loss(net: str) -> None:
    setup = Setup("bp", net)
    oracle = oracle_of(setup)
    taps = oracle.bp(oracle.error(setup.y.numpy()))[1]
    trace = setup.net.trace(setup.params, setup.x)
    credit = setup.rule.credit(setup.net, setup.params, {}, trace.taps, trace.logits, setup.y)
    assert len(credit) == setup.net.signals
    for got, want in zip(credit, taps, strict=False):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("rule", ["dfa", "fa"])
@pytest.mark.parametrize("net", VARIANTS)
def test_local_credit_is_the_formula(rule: str, net: str) -> None:
    setup = Setup(rule, net)
    want = {"dfa": dfa_credit, "fa": fa_credit}[rule](setup, oracle_of(setup))
    trace = setup.net.trace(setup.params, setup.x)
    credit = setup.rule.credit(setup.net, setup.params, setup.state, trace.taps, trace.logits, setup.y)
    for got, value in zip(credit, want, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), value, rtol=1e-9, atol=1e-13)


def test_dfa_with_the_heads_transpose_teaches_the_last_block_what_bp_teaches_it() -> None:
    """The limit in which DFA is BP: B = Wᵀ, no terminal norm, no normalisation (ε so large that it only scales)."""
    eps = 1e9
    dfa, bp = Setup("dfa", "resmlp-no-norm", clip=1e30, credit_eps=eps), Setup("bp", "resmlp-no-norm")
    dfa.state["B.2"] = dfa.params["readout.head.weight"].detach().T.clone()
    got, want = dfa.grads(), bp.grads()
    for name in (name for name in want if name.startswith("blocks.2.")):
        torch.testing.assert_close(got[name] * eps, want[name], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("net", VARIANTS)
def test_fa_teaches_the_last_block_the_exact_gradient(net: str) -> None:
    """By construction; n comes in because FA's gradient is of the mean loss and its local loss is a mean again."""
    eps = 1e9
    fa, bp = Setup("fa", net, clip=1e30, credit_eps=eps), Setup("bp", net)
    got, want = fa.grads(), bp.grads()
    for name in (name for name in want if name.startswith("blocks.2.")):
        torch.testing.assert_close(got[name] * eps * len(fa.x), want[name], rtol=1e-7, atol=1e-12)
    other = "blocks.0.w2.weight"
    assert not torch.allclose(got[other] * eps * len(fa.x), want[other], rtol=1e-2)
