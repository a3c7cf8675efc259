"""DKP: feedback that learns like a direct forward weight, by hand, in its limit, in training and after a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from faudit.config import RunConfig
from faudit.experiment import build_optimizer, prepare
from faudit.rules.dkp import DKP
from faudit.store.checkpoint import load
from faudit.store.run import Run
from faudit.train import fit, stream
from tests.support.direct_by_hand import Array, by_hand, direct_grads, output_errors
from tests.support.nets import Setup, tiny_dataset
from tests.support.runs import QUICK, identical

DIRECT = QUICK.with_(rule="dkp")


@pytest.mark.parametrize("net", ["student", "student-half-linear", "mlp"])
def test_feedback_learns_the_outer_product_of_what_it_teaches_and_the_error(net: str) -> None:
    setup = Setup("dkp", net)
    e = output_errors(setup)
    want = direct_grads(setup, e)
    for stretch in by_hand(setup)[0]:  # B.0 of a net with a skip teaches two: the embedding and block 0
        learned: Array = stretch.gave.T @ e / len(e)
        want[stretch.feedback] = want.get(stretch.feedback, 0) + learned
    got = setup.grads()
    assert got.keys() == want.keys() == setup.params.keys() | setup.state.keys()
    for name in want:
        np.testing.assert_allclose(got[name].numpy(), want[name], rtol=1e-9, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("form", ["shared", "tiled"])
def test_feedback_of_a_map_learns_the_gradient_of_its_dense_form_summed_over_what_shares_an_entry(form: str) -> None:
    dense, other = Setup("dkp", "cnn"), Setup("dkp", "cnn", feedback=form)
    by_position = dense.grads()["B.0"].view(32, 4, 4, 5)
    got = other.grads()["B.0"]
    if form == "shared":
        want = by_position.sum((1, 2))
    else:
        want = torch.zeros(32, 5, 3, 3, dtype=torch.float64)
        for row, column, i, j in np.ndindex(4, 4, 3, 3):
            if 0 <= row + i - 1 < 4 and 0 <= column + j - 1 < 4:
                want[:, :, i, j] += by_position[:, row, column]
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("net", ["cnn", "mlp"])
def test_the_last_hidden_layers_feedback_and_the_head_get_one_update(net: str) -> None:
    setup = Setup("dkp", net)
    got = setup.grads()
    last = f"B.{setup.net.signals - 1}"
    torch.testing.assert_close(got[last].T, got["readout.weight"], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_their_difference_is_constant_and_decays_with_the_weights(optimizer: str, decay: float) -> None:
    """Kolen and Pollack's law: equal updates keep W − Bᵀ, and decay shrinks it by 1 − ηλ in each step."""
    config = RunConfig(
        net="cnn", rule="dkp", optimizer=optimizer, lr=0.05, weight_decay=decay, dtype="float64", batch_size=20
    )
    experiment = prepare(config, tiny_dataset())
    live = experiment.state

    def difference() -> torch.Tensor:
        return (live.params["readout.weight"] - live.rule_state["B.3"].T).detach().clone()

    before, steps = difference(), 0
    start = live.rule_state["B.3"].detach().clone()
    for x, y in experiment.batches.epoch(live.generators):
        step = experiment.rule.step(experiment.net, live.params, live.rule_state, x, y)
        for name, gradient in step.grads.items():
            live.trained[name].grad = gradient
        live.optimizer.step()
        steps += 1
    assert steps == 3 and not torch.equal(start, live.rule_state["B.3"])
    torch.testing.assert_close(difference(), before * (1 - 0.05 * decay) ** steps, rtol=1e-6, atol=1e-7)


def test_feedback_trains_with_its_own_rate_where_one_is_given() -> None:
    config = RunConfig(rule="dkp", depth=2, width=5, batch_size=20)
    experiment = prepare(config, tiny_dataset())
    tensors = {**experiment.state.params, **experiment.state.rule_state}
    assert DKP().groups(tensors) == []
    (group,) = DKP(feedback_lr=0.5).groups(tensors)
    assert group.lr == 0.5 and set(group.names) == experiment.state.rule_state.keys()
    apart = build_optimizer(config, DKP(feedback_lr=0.5), tensors)
    rates: dict[float, float] = {}
    apart.set_rates(lambda rate: rates.setdefault(rate, rate))
    assert list(rates) == [config.lr, 0.5]


def test_the_control_trains_the_embeddings_feedback_alone() -> None:
    control, bare = Setup("frozen-dkp", "resmlp"), Setup("frozen-dkp", "mlp")
    assert {name for name in control.grads() if name in control.state} == {"B.0"}
    assert not {name for name in bare.grads() if name in bare.state}


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_stopped_and_resumed_it_ends_with_the_same_weights_feedback_and_optimizer(
    tmp_path: Path, stop_after: int
) -> None:
    run = Run(tmp_path / "a" / DIRECT.run_id)
    rows = stream(DIRECT, run)
    for _ in range(stop_after):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    calm = fit(DIRECT, tmp_path / "b")
    identical(fit(DIRECT, tmp_path / "a"), calm)
    saved = load(calm.checkpoint)[0]
    feedback = [name.removeprefix("rule/") for name in saved if name.startswith("rule/")]
    assert len(feedback) == 4  # two blocks of two layers; the embedding shares with the first
    assert all(bool(saved[f"optimizer/{name}/exp_avg"].any()) for name in feedback)
