"""Every number of every probe at the edges, where measurements break.

The edges (``tests/support/edges.py``): hidden states of size 1e8, gradients of exactly zero, a sample fitted to the
last bit, one sample over and over, a batch of one. The network is float32; what it must give is computed by hand in
float64 (``tests/support/probes_by_hand.py``, which has an entry for each probe of the registry). Where a number has no
value, that is None: never 0, never 1, never NaN.
"""

from __future__ import annotations

import math
from copy import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from faudit.audit.checks.check import NOT_MEASURED, Case
from faudit.audit.checks.reference import Reference
from faudit.probes import PROBES
from faudit.store.rows import Row
from faudit.watch.reading import turned
from tests.support.edges import EDGES, SAMPLES, at_edge
from tests.support.nets import CLASSES
from tests.support.probes_by_hand import ORACLES, Known, agree


@cache
def known(edge: str, rule: str) -> Known:
    return Known(*at_edge(edge, rule), rule)


# What has no value where the head is zero: every direction of the gradient, and the head's own.
UNDEFINED: dict[str, set[str]] = {
    "norms": set(),
    "gradients": set(),
    "alignment": {"gamma"},
    "accuracy": set(),
    "perturbation": {"rho", "rho_pooled", "rho_study", "rho_bp", "rho_random", "gamma_bp", "gamma_null_draws"}
    | {f"{name}_null_{what}" for name in ("rho", "gamma") for what in ("mean", "std", "place", "p")},
    "precision": {"precision", "precision_agree"},
    "stability": {"stability"},
    "nudging": set(),
    "distribution": {"gamma_quantiles", "gamma_chance", "gamma_first", "gamma_interior", "gamma_last"},
    "update": set(),  # the readout still has its own: see below
    "linear": set(),
    "movement": set(),
    "rank": {"reference_rank"},
    "weights": {"weight_cosine", "weight_angle"},
    "swap": set(),
    "samples": {"gamma_others", "gamma_others_std"},
}


def numbers(entry: Any) -> list[Any]:
    """An entry's numbers, however it is nested."""
    return [number for one in entry for number in numbers(one)] if isinstance(entry, list) else [entry]


@pytest.fixture(params=list(PROBES))
def probe_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(EDGES))
def edge(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("rule", ["dfa", "fa"])
def test_a_probe_at_an_edge_gives_the_number_computed_by_hand_or_none(probe_name: str, edge: str, rule: str) -> None:
    got = PROBES[probe_name]().measure(at_edge(edge, rule)[1])
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is how numpy says undefined
        want = ORACLES[probe_name](known(edge, rule))
    assert got.keys() == want.keys()
    for name in want:
        assert agree(name, got[name], want[name]), f"{name}: {got[name]}, by hand {want[name]}"


def test_the_edges_are_where_they_should_be() -> None:
    for h in at_edge("exploded", "dfa")[1].taps:
        assert 3e7 < float(h.norm(dim=1).median()) < 1e9
    for edge in ("no gradient", "fitted"):
        assert not any(bool(g.any()) for g in at_edge(edge, "dfa")[1].gradients)
        assert all(bool(credit.any()) is (edge == "no gradient") for credit in at_edge(edge, "dfa")[1].credits)


def test_without_a_gradient_exactly_what_needs_its_direction_has_no_value(probe_name: str) -> None:
    row = PROBES[probe_name]().measure(at_edge("no gradient", "dfa")[1])
    for name, entry in row.items():
        if name in ("update_cosines", "update_ratios"):
            assert entry[:-1] == [None] * 4 and entry[-1] == pytest.approx(1.0), name
        elif name in UNDEFINED[probe_name]:
            assert set(numbers(entry)) == {None}, name
        else:
            assert None not in numbers(entry), name


def test_without_a_gradient_every_sample_is_counted() -> None:
    reading = at_edge("no gradient", "dfa")[1]
    counted = {name: entry for probe in PROBES for name, entry in PROBES[probe]().measure(reading).items()}
    assert counted["gamma_undefined"] == counted["rho_undefined"] == [SAMPLES] * 3
    assert counted["precision_undefined"] == [SAMPLES] * 4 and counted["precision_fitted"] == counted["fitted"] == 0
    assert counted["rho_valid"] == [False] * 3
    assert counted["nudging"] == [0.0] * 3, "measured: no step changes this loss"


def test_a_gradient_that_float32_lost_and_float64_has_is_a_disagreement_and_not_undefined() -> None:
    reading = copy(at_edge("single", "bp")[1])
    reading.gradients = [torch.zeros_like(g) for g in reading.gradients]
    row = PROBES["precision"]().measure(reading)
    assert row["precision_agree"] == [0.0] * 4 and row["precision_undefined"] == [0] * 4


def test_a_reference_of_nothing_is_not_measured_and_never_a_pass_or_a_fault() -> None:
    measured = PROBES["precision"]().measure(at_edge("no gradient", "dfa")[1])
    row = Row(measured, epoch=1, eval_samples=SAMPLES)
    found = Reference().find(Case(None, [row], SAMPLES, CLASSES))
    assert found.status == NOT_MEASURED and "exactly zero" in found.reason


@pytest.mark.parametrize("net", ["vit", "cnn"])
def test_no_probe_of_any_net_leaks_what_is_not_a_number_at_an_edge(
    net: str, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faudit.probes.perturbation.DIRECTIONS", 4)  # each costs three passes; four show as much
    reading = at_edge(edge, "dfa", net)[1]
    for probe in PROBES:
        for name, entry in PROBES[probe]().measure(reading).items():
            for number in numbers(entry):
                assert number is None or math.isfinite(number), f"{probe}: {name}"


def test_a_foreign_credit_of_nothing_or_of_one_sample_can_be_turned() -> None:
    for credit in (torch.zeros(4, 3), torch.tensor([[3.0, 4.0, 0.0]])):
        (one,) = turned(credit, [torch.Generator().manual_seed(0)])
        assert one.norm(dim=1).tolist() == pytest.approx(credit.norm(dim=1).tolist())
