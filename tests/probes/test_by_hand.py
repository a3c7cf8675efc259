"""Norms, gradients, Γ and accuracy against derivatives written out by hand, float64, on every ResMLP variant."""

from __future__ import annotations

import numpy as np
import pytest

from faudit.probes import PROBES
from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import dfa_credit, oracle_of


@pytest.mark.parametrize("net", RESMLPS)
def test_norms_gradients_and_gamma_against_the_hand_written_oracle(net: str) -> None:
    setup = Setup("dfa", net)
    oracle = oracle_of(setup)
    reading = setup.reading()
    taps = oracle.bp(oracle.error(setup.y.numpy()))[1]  # e not divided by n: each sample's own loss
    row = {name: value for probe in PROBES for name, value in PROBES[probe]().measure(reading).items()}

    np.testing.assert_allclose(
        row["hidden_norms"], [np.median(np.linalg.norm(h, axis=1)) for h in oracle.h], rtol=1e-12
    )
    np.testing.assert_allclose(row["grad_norms"], [np.median(np.linalg.norm(g, axis=1)) for g in taps], rtol=1e-9)
    np.testing.assert_allclose(row["grad_norms_frobenius"], [np.linalg.norm(g) for g in taps], rtol=1e-9)
    for l, credit in enumerate(dfa_credit(setup, oracle)[setup.net.taught_at(0) :]):
        g = taps[setup.net.taught_at(l)]
        cosines = (credit * g).sum(1) / np.linalg.norm(credit, axis=1) / np.linalg.norm(g, axis=1)
        assert row["gamma"][l] == pytest.approx(cosines.mean(), rel=1e-9)
    assert row["gamma_undefined"] == [0] * setup.net.blocks
    assert row["acc_eval"] == pytest.approx((oracle.logits.argmax(1) == setup.y.numpy()).mean())
