"""Samples fitted beyond the precision of the network: every probe of the credit counts them and leaves them out.

A float32 network with 12 samples. It is right about four of them by a factor of e¹⁸ and more: their output error is
below 1e-7, where float32 holds 1 − p as a whole multiple of 6e-8. It is wrong about the other eight.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.audit.audit import lacking
from faudit.audit.checks.check import NOT_MEASURED, UNDECIDED
from faudit.audit.checks.null import Null
from faudit.audit.checks.reference import Reference
from faudit.probes import PROBES
from faudit.probes.alignment import Alignment
from faudit.probes.distribution import Distribution
from faudit.probes.nudging import Nudging
from faudit.probes.perturbation import Perturbation
from faudit.probes.precision import Precision
from faudit.probes.probe import Reading
from faudit.store.rows import Row
from faudit.tensors import cosines
from faudit.watch.copies import inspected
from faudit.watch.reading import ForeignReading
from tests.support.cases import HEALTHY, case
from tests.support.edges import at_edge
from tests.support.models import MLP_TAPS, batch, mlp
from tests.support.nets import Setup
from tests.support.probes_by_hand import ORACLES, Known, agree
from tests.support.readings import per_sample_gradients, reading_of

SAMPLES, FITTED = 12, 4
OF_THE_CREDIT = ("alignment", "distribution", "perturbation", "nudging", "precision")


@cache
def partly_fitted(rule: str) -> Setup:
    """A steep head. The label is the winner where it leads by more than 15 nats, and the last class elsewhere."""
    setup, draw = Setup(rule, "resmlp"), torch.Generator().manual_seed(11)
    setup.params = {name: value.detach() for name, value in setup.params.items()}
    setup.params["readout.head.weight"] = setup.params["readout.head.weight"] * 32  # float32 holds every digit
    setup.x = torch.randn(SAMPLES, *setup.net.sample_shape, generator=draw).double()
    logits = setup.net.forward(setup.params, setup.x)
    best, second = logits.topk(2, dim=1).values.unbind(dim=1)
    assert int((best - second > 15).sum()) == FITTED
    setup.y = torch.where(best - second > 15, logits.argmax(dim=1), logits.argmin(dim=1))
    return setup


def is_open(setup: Setup) -> np.ndarray:
    """By the labels alone: the network is wrong about these."""
    return (setup.net.forward(setup.params, setup.x).argmax(dim=1) != setup.y).numpy()


def test_gamma_is_the_float64_mean_over_the_samples_above_the_limit_and_the_old_mean_is_another() -> None:
    setup = partly_fitted("dfa")
    reading, keep = reading_of(setup, torch.float32), is_open(setup)
    row = Alignment().measure(reading)
    assert row["fitted"] == FITTED == SAMPLES - keep.sum() and row["gamma_undefined"] == [0] * 3
    logits = setup.net.forward(setup.params, setup.x).numpy()
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = p / p.sum(axis=1, keepdims=True) - np.eye(logits.shape[1])[setup.y.numpy()]
    rounded = []
    for block in range(3):
        a, g = error @ setup.state[f"B.{block}"].numpy().T, per_sample_gradients(reading, block)
        true = (a * g).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(g, axis=1)
        assert row["gamma"][block] == pytest.approx(true[keep].mean(), abs=1e-6)
        old = float(cosines(reading.credits[block], reading.gradients[block]).nanmean())
        assert abs(old - true[keep].mean()) > 1e-3, "counting them would show"
        rounded.append(abs(old - true.mean()))
    assert max(rounded) > 1e-3, "float32 does not hold their direction"


@pytest.mark.parametrize("rule", ["dfa", "fa"])
@pytest.mark.parametrize("probe", OF_THE_CREDIT)
def test_a_probe_of_a_partly_fitted_network_gives_the_number_computed_by_hand(probe: str, rule: str) -> None:
    setup = partly_fitted(rule)
    reading = reading_of(setup, torch.float32)
    got, want = PROBES[probe]().measure(reading), ORACLES[probe](Known(setup, reading, rule))
    assert got.keys() == want.keys()
    for name in want:
        assert agree(name, got[name], want[name]), f"{name}: {got[name]}, by hand {want[name]}"


def test_leaving_samples_out_is_never_having_met_them() -> None:
    setup = partly_fitted("dfa")
    whole, keep = reading_of(setup, torch.float32), torch.from_numpy(is_open(setup))
    part = Reading(whole.net, whole.rule, whole.params, whole.state, whole.x[keep], whole.y[keep])
    for probe in (Alignment(), Distribution()):
        for name, value in probe.measure(part).items():
            if name != "fitted":
                assert agree(name, probe.measure(whole)[name], value), name


def test_every_probe_leaves_out_the_same_samples() -> None:
    """All measured at once: one count, and the blocks' Γ are the ends and the interior of the distribution."""
    reading = reading_of(partly_fitted("dfa"), torch.float32)
    row = {name: value for probe in OF_THE_CREDIT for name, value in PROBES[probe]().measure(reading).items()}
    assert row["fitted"] == row["precision_fitted"] == FITTED
    assert [row["gamma_first"], row["gamma_interior"], row["gamma_last"]] == row["gamma"]
    assert row["gamma_chance"] == pytest.approx([1.96 / math.sqrt(6 * (SAMPLES - FITTED))] * 3)


def test_the_limit_is_that_of_the_networks_own_type() -> None:
    """An error of e⁻⁸ is far above the precision of float64 and above that of float32; one of e⁻¹⁸ above the first."""
    setup = partly_fitted("dfa")
    assert not reading_of(setup).fitted.any() and Alignment().measure(reading_of(setup))["fitted"] == 0
    single = reading_of(setup, torch.float32).fitted
    assert single.tolist() == (~is_open(setup)).tolist()


@pytest.mark.parametrize(("times", "is_fitted"), [(0.99, True), (1.01, False)])
def test_the_limit_is_a_hundred_rounding_steps_of_one(times: float, is_fitted: bool) -> None:
    """Two classes that differ by log((1 − p)/p) have an error of (−p, p), of size p·√2."""
    reading = reading_of(partly_fitted("dfa"), torch.float32)
    p = times * 100 * 2.0**-23 / math.sqrt(2)
    logits = torch.tensor([[math.log((1 - p) / p), 0.0, -200.0, -200.0, -200.0]])
    reading.trace = replace(reading.trace, logits=logits)
    reading.y = torch.zeros(1, dtype=torch.int64)
    assert reading.fitted.tolist() == [is_fitted]


def test_an_error_that_is_no_number_is_not_fitted() -> None:
    reading = reading_of(partly_fitted("dfa"), torch.float32)
    reading.params = {**reading.params, "readout.head.bias": torch.full((5,), math.nan)}
    row = Alignment().measure(reading)
    assert row == {"gamma": [None] * 3, "gamma_undefined": [SAMPLES] * 3, "fitted": 0}


def test_where_every_sample_is_fitted_nothing_has_a_value_and_the_null_says_why() -> None:
    reading = at_edge("fitted", "dfa")[1]
    samples = len(reading.y)
    row = {name: value for probe in OF_THE_CREDIT for name, value in PROBES[probe]().measure(reading).items()}
    for name in ("gamma", "rho", "rho_pooled", "rho_bp", "gamma_bp", "nudging", "nudging_random", "gamma_chance"):
        assert row[name] == [None] * 3, name
    assert row["fitted"] == samples and row["gamma_undefined"] == row["rho_undefined"] == [0] * 3
    judged = case(**{**row, "eval_samples": samples})
    found = Null().find(judged)
    assert found.status == UNDECIDED and f"all {samples} samples are fitted beyond the precision" in found.reason
    assert Reference().find(judged).status == NOT_MEASURED


def test_a_foreign_model_judges_by_its_own_loss() -> None:
    """The sum of squares: its error is 2(logits − y), and the labels of two samples are the outputs themselves."""
    model, (x, _) = mlp(), batch(6)
    net, exact = inspected(model, x, patterns=MLP_TAPS, samples=6)
    y = model(x).detach() + torch.tensor([0, 0, 1e-7, 1e-5, 1e-1, math.nan])[:, None]

    def squares(logits: Tensor, y: Tensor) -> Tensor:
        assert logits.dtype == y.dtype
        return (logits - y).square().sum(dim=1)

    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.ones_like(h) for h in taps]

    reading = ForeignReading(net, exact, x, y, own_loss=squares, credit=credit)
    wanted = 2 * (model(x).detach().double() - y.double()).norm(dim=1) < 100 * 2.0**-23
    assert reading.fitted.tolist() == wanted.tolist() == [True, True, True, False, False, False]
    assert Alignment().measure(reading)["fitted"] == 3


def test_a_foreign_classifier_is_judged_as_a_net_of_ours() -> None:
    model, (x, _) = mlp(), batch(40)
    model[-1].load_state_dict({name: 256 * value for name, value in model[-1].state_dict().items()})
    net, exact = inspected(model, x, patterns=MLP_TAPS, samples=40)
    logits = model(x).detach()
    y = (logits.argmax(dim=1) + torch.arange(40) % 2) % logits.shape[1]  # right about every other sample
    reading = ForeignReading(net, exact, x, y)
    error = F.softmax(reading.trace.logits.double(), dim=1) - F.one_hot(y, logits.shape[1])
    wanted = error.norm(dim=1) < 100 * 2.0**-23
    assert int(wanted.sum()) == 20 and reading.fitted.tolist() == wanted.tolist()
    assert Precision().measure(reading)["precision_fitted"] == int(wanted.sum())


def test_a_row_from_before_the_count_is_measured_again_in_every_probe_of_the_credit() -> None:
    reading = reading_of(partly_fitted("dfa"), torch.float32)
    reading.initial = reading.params
    row = Row(HEALTHY)
    for probe in PROBES.values():
        row |= probe().measure(reading)
    assert lacking(row) == []
    del row["fitted"]
    again = ["alignment", "perturbation", "nudging", "distribution"]  # probes that there were before the count
    assert lacking(row) == [*again, "samples"]
    assert [PROBES[name]().version for name in again] == [2] * 4


def test_the_studys_own_numbers_are_over_all_samples() -> None:
    reading = reading_of(partly_fitted("dfa"), torch.float32)
    every = reading_of(partly_fitted("dfa"), torch.float32)
    every.fitted = torch.zeros(SAMPLES, dtype=torch.bool)
    for probe, name, ours in ((Perturbation(), "rho_study", "rho"), (Nudging(), "nudging_study", "nudging")):
        got, unmasked = probe.measure(reading), probe.measure(every)
        assert got[name] == unmasked[name] and got[ours] != unmasked[ours], name
