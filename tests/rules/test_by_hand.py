"""The step of BP and the block-local rules against derivatives by hand in numpy, float64, on every ResMLP variant."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from faudit.rules import RULES
from faudit.rules.local import LocalRule
from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import KNOWN, expected

SETTINGS = [{}, {"penalty": 0.3}]


@pytest.mark.parametrize("rule_name", KNOWN)
@pytest.mark.parametrize("net", RESMLPS)
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "penalty"])
def test_step_equals_the_derivative_by_hand(rule_name: str, net: str, settings: dict[str, float]) -> None:
    local = issubclass(RULES[rule_name], LocalRule)
    extra = {"clip": 0.7, "credit_eps": 1e-3} if local else {}  # a small clip so that it acts, an ε that shows
    setup = Setup(rule_name, net, 0, **settings, **extra)
    want = expected(rule_name, setup, settings.get("penalty", 0.0), eps=1e-3, clip=0.7)
    got = {name: gradient for name, gradient in setup.grads().items() if name in setup.params}
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("net", RESMLPS)
def test_the_clip_in_that_test_really_acts_on_some_blocks(net: str) -> None:
    loose = Setup("dfa", net, clip=1e9, credit_eps=1e-3).grads()
    tight = Setup("dfa", net, clip=0.7, credit_eps=1e-3).grads()
    changed = {name for name in loose if not torch.equal(loose[name], tight[name])}
    assert changed and all(name.startswith("blocks.") for name in changed)
