"""Weight mirrors: in expectation a phase shows the feedback its weight, so the angle falls to the noise of sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.probes.weights import angle
from faudit.rules.weight_mirror import MIRRORED, WeightMirror
from faudit.store.run import Run
from faudit.train import fit, stream
from tests.support.nets import TINY_NETS, Setup
from tests.support.runs import identical


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mirrored(setup: Setup, times: int, seed: int = 0) -> dict[str, Tensor]:
    """The state after some updates that left the weights alone."""
    generator, step = draw(seed), setup.step()
    with torch.no_grad():
        for _ in range(times):
            changed = setup.rule.after_update(setup.net, setup.params, setup.state, step, generator=generator)
            setup.state = {**setup.state, **changed}
    return setup.state


@pytest.mark.parametrize("shape", [(4, 6), (3, 2, 3, 2)])
@pytest.mark.parametrize(("response", "slope"), [("linear", 1.0), ("sigmoid", 0.25)])
def test_the_expected_sum_of_a_phase_is_the_weight_times_the_power_of_the_noise(
    shape: tuple[int, ...], response: str, slope: float
) -> None:
    """For the sigmoid near its middle, where it has the slope 1/4."""
    n, a = 400_000, 0.2
    weight = torch.randn(shape, dtype=torch.float64, generator=draw(1))
    rule = WeightMirror(mirror_batch=n, mirror_noise=a, mirror_response=response)
    total = rule.mirrored(weight, torch.zeros(shape[0], dtype=torch.float64), generator=draw(2))
    # The deviation of one entry: that of y x over √n samples; the sigmoid's mean of 1/2 adds to it.
    fan = weight[0].numel()
    deviation = (n * a**2 / 12 * (slope**2 * fan * a**2 / 12 * 4 + (0.25 if response == "sigmoid" else 0.0))) ** 0.5
    want = slope * n * a**2 / 12 * weight
    assert float((total - want).abs().max()) < 5 * deviation
    assert float(want.abs().max()) > 10 * deviation, "the noise must not hide the weight"


def test_one_phase_by_hand_in_numpy() -> None:
    setup = Setup("weight-mirror", "resmlp", mirror_lr=0.3, mirror_decay=0.2, mirror_noise=0.5, mirror_batch=3)
    before, generator = dict(setup.state), draw(4)
    after = mirrored(setup, 1, seed=4)
    for name, value in before.items():
        weight = setup.params[name.removeprefix("B.")].detach().numpy()
        x = 0.5 * (torch.rand(3, weight.shape[1], dtype=torch.float64, generator=generator).numpy() - 0.5)
        want = 0.8 * value.numpy() + 0.3 * sum(np.outer(weight @ row, row) for row in x)
        np.testing.assert_allclose(after[name].numpy(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "net_name",
    [pytest.param(net, marks=[] if net in ("resmlp", "vit", "cnn", "mlp") else pytest.mark.slow) for net in TINY_NETS],
)
def test_the_feedback_of_every_layer_turns_to_its_weight_and_settles_at_its_size(net_name: str) -> None:
    """lr · n · a²/12 = decay: the feedback settles at W itself. A small rate leaves little sampling noise."""
    setup = Setup("weight-mirror", net_name, mirror_lr=0.02 * 12 / 500, mirror_decay=0.02, mirror_batch=500)
    weights = {name: setup.params[name.removeprefix("B.")].detach() for name in setup.state}
    before = {name: angle(value, weights[name]) for name, value in setup.state.items()}
    after = mirrored(setup, 250)
    for name, weight in weights.items():
        start, end = before[name], angle(after[name], weight)
        limit = 4.0 + 0.6 * weight[0].numel() ** 0.5  # sampling noise grows with the inputs of a layer
        assert start is not None and end is not None and start > 30 and end < limit, (name, start, end)
        assert float(after[name].norm() / weight.norm()) == pytest.approx(1.0, abs=0.2), name


@pytest.mark.parametrize("mirror_start", [1, 5])
def test_the_phases_at_the_start_happen_once(mirror_start: int) -> None:
    started, plain = (Setup("weight-mirror", "resmlp", mirror_start=phases) for phases in (mirror_start, 0))
    assert not bool(started.state[MIRRORED]) and MIRRORED not in plain.state
    one, other = mirrored(started, 2), mirrored(plain, 2 + mirror_start)
    assert bool(one[MIRRORED]) and all(torch.equal(one[name], value) for name, value in other.items())


def test_the_sigmoid_of_a_layer_has_its_bias() -> None:
    setup = Setup("weight-mirror", "resmlp", mirror_response="sigmoid", mirror_batch=4)
    before = mirrored(setup, 1)["B.readout.head.weight"]
    setup.state = Setup("weight-mirror", "resmlp", mirror_response="sigmoid", mirror_batch=4).state
    setup.params["readout.head.bias"] = (setup.params["readout.head.bias"].detach() + 1.0).requires_grad_()
    assert not torch.equal(before, mirrored(setup, 1)["B.readout.head.weight"])


def test_the_feedback_of_frozen_blocks_stays_and_that_of_the_readout_learns() -> None:
    setup = Setup("frozen-weight-mirror", "resmlp")
    before = dict(setup.state)
    after = mirrored(setup, 1)
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"B.readout.head.weight"}


@pytest.mark.parametrize("settings", [{}, {"mirror_start": 3, "mirror_response": "sigmoid"}], ids=["plain", "start"])
def test_a_run_that_was_stopped_between_row_and_checkpoint_resumes_to_the_same_bits(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    config = RunConfig(rule="weight-mirror", epochs=3, width=16, depth=2, batch_size=128, **settings)
    run = Run(tmp_path / "a" / config.run_id)
    rows = stream(config, run)
    for _ in range(3):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    assert run.status == "stopped"
    identical(fit(config, tmp_path / "a"), fit(config, tmp_path / "b"))
