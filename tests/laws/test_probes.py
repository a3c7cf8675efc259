"""Laws that every probe keeps, and each number against a second computation."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from faudit.probes import PROBES
from faudit.probes.probe import Reading
from tests.support.nets import RESMLPS, Setup
from tests.support.rules_by_hand import dfa_credit, oracle_of


def reading_of(setup: Setup) -> Reading:
    return Reading(setup.net, setup.rule, setup.params, setup.state, setup.x, setup.y)


@pytest.fixture(params=list(PROBES))
def probe_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_probe_changes_nothing(probe_name: str, rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    for value in setup.params.values():
        value.grad = torch.ones_like(value)
    held = {**setup.params, **setup.state, "x": setup.x, "y": setup.y}
    copies = {name: value.detach().clone() for name, value in held.items()}
    random, mode = torch.get_rng_state(), torch.is_grad_enabled()
    PROBES[probe_name]().measure(reading_of(setup))
    assert all(torch.equal(value, copies[name]) for name, value in held.items())
    assert all(
        value.requires_grad and torch.equal(value.grad, torch.ones_like(value))  # type: ignore[arg-type]
        for value in setup.params.values()
    )
    assert torch.equal(random, torch.get_rng_state()) and mode == torch.is_grad_enabled()


def test_a_probe_works_where_gradients_are_switched_off(probe_name: str, rule_name: str) -> None:
    setup = Setup(rule_name, "resmlp")
    with_grad = PROBES[probe_name]().measure(reading_of(setup))
    with torch.no_grad():
        assert PROBES[probe_name]().measure(reading_of(setup)) == with_grad


def test_probes_write_different_entries() -> None:
    setup = Setup("dfa", "resmlp")
    entries = [name for probe in PROBES for name in PROBES[probe]().measure(reading_of(setup))]
    assert len(entries) == len(set(entries))
    for name in (
        "hidden_norms",
        "grad_norms",
        "grad_norms_frobenius",
        "gamma",
        "gamma_undefined",
        "acc_eval",
        "loss_eval",
    ):
        assert name in entries


@pytest.mark.parametrize("net", RESMLPS)
def test_norms_gradients_and_gamma_against_the_hand_written_oracle(net: str) -> None:
    setup = Setup("dfa", net)
    oracle = oracle_of(setup)
    reading = reading_of(setup)
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


def test_the_gradient_norm_does_not_depend_on_the_buffer_size(net_name: str) -> None:
    """The study's does: it differentiates the mean over the buffer."""
    setup = Setup("bp", net_name)
    once = PROBES["gradients"]().measure(reading_of(setup))
    setup.x, setup.y = setup.x.repeat(4, 1, 1, 1), setup.y.repeat(4)
    often = PROBES["gradients"]().measure(reading_of(setup))
    np.testing.assert_allclose(often["grad_norms"], once["grad_norms"], rtol=1e-10)


def test_bp_is_aligned_with_itself(net_name: str) -> None:
    gamma = PROBES["alignment"]().measure(reading_of(Setup("bp", net_name)))["gamma"]
    np.testing.assert_allclose(gamma, 1.0, rtol=1e-12)


@pytest.mark.parametrize("rule", ["frozen-dfa", "frozen-fa", "frozen-bp"])
def test_a_block_that_is_taught_nothing_has_no_gamma(rule: str) -> None:
    setup = Setup(rule, "resmlp")
    row = PROBES["alignment"]().measure(reading_of(setup))
    assert row["gamma"][0] is not None
    assert row["gamma"][1:] == [None, None] and row["gamma_undefined"] == [0, len(setup.x), len(setup.x)]


def test_a_sample_without_gradient_is_counted_not_scored() -> None:
    """Logits so far apart that softmax is exactly one-hot: e = 0 and g = 0 for the samples that are right."""
    setup = Setup("dfa", "resmlp-no-norm")
    plain = copy.copy(setup)
    plain.params = {name: value.detach().clone() for name, value in setup.params.items()}
    plain.params["readout.head.weight"] *= 1e6
    logits = plain.net.forward(plain.params, plain.x)
    plain.y = logits.argmax(dim=1)
    plain.y[:2] = (plain.y[:2] + 1) % plain.net.classes
    row = PROBES["alignment"]().measure(reading_of(plain))
    assert row["gamma_undefined"] == [len(plain.x) - 2] * plain.net.blocks
    assert all(-1 <= value <= 1 for value in row["gamma"])
    plain.y = logits.argmax(dim=1)
    row = PROBES["alignment"]().measure(reading_of(plain))
    assert row["gamma"] == [None] * plain.net.blocks


def test_gamma_is_right_for_an_exploded_stream_with_a_tiny_gradient() -> None:
    """‖h‖ ~ 1e12 makes g ~ 1e-12: there the library's clamp would pull every cosine towards zero."""
    setup = Setup("dfa", "resmlp")
    with torch.no_grad():
        for name in ("embed.weight", "embed.bias"):
            setup.params[name] *= 1e12
    wide = PROBES["alignment"]().measure(reading_of(setup))
    small = {name: value.detach().float() for name, value in setup.params.items()}
    state = {name: value.float() for name, value in setup.state.items()}
    reading = Reading(setup.net, setup.rule, small, state, setup.x.float(), setup.y)
    single = PROBES["alignment"]().measure(reading)
    np.testing.assert_allclose(single["gamma"], wide["gamma"], atol=1e-4)
    clamped = torch.nn.functional.cosine_similarity(reading.credits[0], reading.gradients[0]).mean()
    assert abs(float(clamped) - wide["gamma"][0]) > 0.5 * abs(wide["gamma"][0]), "the clamp would not show here"


def test_an_overflow_is_infinite_not_undefined() -> None:
    setup = Setup("bp", "resmlp")
    with torch.no_grad():
        setup.params["blocks.1.w2.weight"] *= math.inf
    hidden = PROBES["norms"]().measure(reading_of(setup))["hidden_norms"]
    assert all(math.isfinite(norm) for norm in hidden[:2]) and not math.isfinite(hidden[2])
