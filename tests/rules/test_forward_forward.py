"""Forward-forward: the step by hand in numpy, labels that never leak, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import prepare
from faudit.nets.mlp import MLP
from faudit.rules.forward_forward import ForwardForward, other_labels
from faudit.train import fit
from tests.support.nets import CLASSES, TINY_NETS, Setup, tiny_dataset
from tests.support.runs import survives_a_stop

Array = np.ndarray[Any, np.dtype[np.float64]]
SMALL = RunConfig(
    rule="forward-forward", net="mlp", sizes=(64, 48), activation="relu", weight_init="glorot", pixels="unit",
    optimizer="sgd", momentum=0.9, weight_decay=3e-4, lr=0.02, schedule="constant", epochs=4, batch_size=32,
)  # fmt: skip


def lively(**settings: Any) -> Setup:
    """A setup whose head has left zero and whose units differ in their mean activity."""
    setup = Setup("forward-forward", "mlp-relu", **settings)
    draw = torch.Generator().manual_seed(3)
    setup.state["head.weight"].data.normal_(0.0, 0.3, generator=draw)
    for l in range(setup.net.blocks):
        setup.state[f"mean.{l}"].uniform_(0.0, 1.0, generator=draw)
    return setup


def unit(z: Array) -> Array:
    return np.asarray(z / (np.sqrt((z**2).mean(1, keepdims=True)) + 1e-8))


def labelled(setup: Setup, label: Array) -> Array:
    x: Array = setup.x.numpy().reshape(len(setup.x), -1).copy()
    x[:, :CLASSES] = label
    return x


def layers(setup: Setup, x: Array) -> list[tuple[Array, Array]]:
    """Input and activity of each layer."""
    found, a = [], unit(x)
    for l in range(setup.net.blocks):
        weight, bias = (setup.params[f"blocks.{l}.{kind}"].detach().numpy() for kind in ("weight", "bias"))
        found.append((a, np.maximum(a @ weight.T + bias, 0.0)))
        a = unit(found[-1][1])
    return found


def error_of(logits: Array, y: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True) - np.eye(logits.shape[1])[y])


def test_the_step_and_the_running_means_are_the_formulas_by_hand() -> None:
    setup, peer = lively(peer_norm=0.7), 0.7
    n, y, eye = len(setup.x), setup.y.numpy(), np.eye(CLASSES)
    wrong = other_labels(setup.y, CLASSES, torch.Generator().manual_seed(2)).numpy()  # as in Setup.step
    both = np.concatenate([labelled(setup, eye[y]), labelled(setup, eye[wrong])])
    right = np.arange(2 * n) < n
    want: dict[str, Array] = {}
    means: dict[str, Array] = {}
    for l, (a, z) in enumerate(layers(setup, both)):
        excess = (z**2).sum(1) - z.shape[1]
        slope = np.where(right, -1.0 / (1.0 + np.exp(excess)), 1.0 / (1.0 + np.exp(-excess))) / (2 * n)
        mean = 0.9 * setup.state[f"mean.{l}"].numpy() + 0.1 * z[:n].mean(0)
        at_z = 2.0 * slope[:, None] * z
        at_z[:n] += peer * 2.0 * (mean - mean.mean()) / len(mean) * 0.1 / n  # of silent units too
        want |= {f"blocks.{l}.weight": at_z.T @ a, f"blocks.{l}.bias": at_z.sum(0)}
        means[f"mean.{l}"] = mean
    neutral = [unit(z) for _, z in layers(setup, labelled(setup, np.full(CLASSES, 1.0 / CLASSES)))]
    seen = np.concatenate(neutral[1:], axis=1)
    want["head.weight"] = error_of(seen @ setup.state["head.weight"].detach().numpy().T, y).T @ seen / n
    trace = setup.net.trace(setup.params, setup.x)
    error = error_of(trace.logits.detach().numpy(), y) / n
    want |= {"readout.weight": error.T @ trace.taps[-1].detach().numpy(), "readout.bias": error.sum(0)}

    step = setup.step()
    assert step.grads.keys() == want.keys()
    for name, value in want.items():
        assert value.any(), name
        np.testing.assert_allclose(step.grads[name].numpy(), value, rtol=1e-9, atol=1e-14, err_msg=name)
    new = setup.rule.after_update(setup.net, setup.params, setup.state, step, generator=torch.Generator())
    assert new.keys() == means.keys() == {name for name in setup.state if name.startswith("mean.")}
    for name, value in means.items():
        np.testing.assert_allclose(new[name].numpy(), value, rtol=1e-12)


def test_predictions_by_head_and_by_goodness_are_the_formulas_by_hand() -> None:
    head, fits = lively(), lively(predict_by="goodness")
    neutral = [unit(z) for _, z in layers(head, labelled(head, np.full(CLASSES, 1.0 / CLASSES)))]
    want = np.concatenate(neutral[1:], axis=1) @ head.state["head.weight"].detach().numpy().T
    got = head.rule.predict(head.net, head.params, head.state, head.x)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9)
    sums = [sum((z**2).sum(1) for _, z in layers(fits, labelled(fits, label))[1:]) for label in np.eye(CLASSES)]
    got = fits.rule.predict(fits.net, fits.params, fits.state, fits.x)
    np.testing.assert_allclose(got.detach().numpy(), np.stack(sums, axis=1), rtol=1e-9)


@pytest.mark.parametrize("by", ["head", "goodness"])
def test_no_label_leaks_into_a_prediction(by: str) -> None:
    """The inputs where labels are written do not matter: whatever is there is overwritten."""
    setup = lively(predict_by=by)
    before = setup.rule.predict(setup.net, setup.params, setup.state, setup.x)
    leaked = setup.x.clone()
    leaked.view(len(leaked), -1)[:, :CLASSES] = torch.eye(CLASSES, dtype=torch.float64)[setup.y]
    assert torch.equal(setup.rule.predict(setup.net, setup.params, setup.state, leaked), before)


def test_the_head_learns_from_activity_that_has_seen_no_label() -> None:
    """With a head at zero, samples of one input differ in their errors alone: their sum over the classes is zero."""
    setup = Setup("forward-forward", "mlp-relu")
    one, two = [], []
    for label in range(CLASSES):
        setup.y = torch.full_like(setup.y, label)
        gradient = setup.grads()["head.weight"]
        one.append(gradient[label] / (1.0 / CLASSES - 1.0))
        two.append(gradient[label - 1] * CLASSES)
    for found in (*one, *two):
        torch.testing.assert_close(found, one[0], rtol=1e-12, atol=1e-15)


def test_wrong_labels_are_wrong_and_equally_frequent_and_need_a_generator() -> None:
    y = torch.arange(4).repeat(3000)
    wrong = other_labels(y, 4, torch.Generator().manual_seed(1))
    assert not bool((wrong == y).any())
    counts = torch.zeros(4, 4).index_put_((y, wrong), torch.ones(len(y)), accumulate=True)
    assert bool(((counts == 0) == torch.eye(4, dtype=torch.bool)).all())
    assert float(counts[counts > 0].min()) > 900 and float(counts.max()) < 1100
    setup = Setup("forward-forward", "mlp-relu")
    with pytest.raises(ValueError, match="expected a generator, got none"):
        setup.rule.step(setup.net, setup.params, setup.state, setup.x, setup.y)


def test_other_draws_change_the_layers_and_neither_head_nor_readout() -> None:
    setup = lively()
    one, two = (
        setup.rule.step(
            setup.net, setup.params, setup.state, setup.x, setup.y, generator=torch.Generator().manual_seed(seed)
        ).grads
        for seed in (2, 3)
    )
    changed = {name for name in one if not torch.equal(one[name], two[name])}
    assert changed == {name for name in one if name.startswith("blocks.")}


def test_a_batch_of_one_class_or_one_sample_and_a_silent_net_give_finite_gradients() -> None:
    setup = lively()
    setup.x, setup.y = setup.x[:1], torch.tensor([2])
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())
    with torch.no_grad():
        for name, value in setup.params.items():
            value.fill_(-1.0 if name.endswith("bias") else 0.0)
    assert all(bool(gradient.isfinite().all()) for gradient in setup.grads().values())


def test_a_net_of_one_layer_predicts_by_that_layer() -> None:
    net = MLP((1, 4, 4), CLASSES, sizes=(6,), activation="relu")
    state = ForwardForward().init(net, torch.zeros(1, 1, 4, 4), torch.Generator())
    assert state["head.weight"].shape == (CLASSES, 6) and state["mean.0"].tolist() == [0.5] * 6


def test_what_it_cannot_train_is_refused_in_one_line() -> None:
    found = {name: reason for name, make in TINY_NETS.items() if (reason := ForwardForward().refusal(make()))}
    assert found.keys() == TINY_NETS.keys() - {"mlp-relu"}
    assert "net mlp" in found["resmlp"] and "--activation tanh" in found["mlp"] and "dropout" in found["mlp-norm"]
    for shape, classes in (((1, 2, 2), 4), ((1, 4, 4), 1)):
        assert "labels must be" in str(ForwardForward().refusal(MLP(shape, classes, activation="relu")))
    with pytest.raises(ConfigError, match="rule forward-forward cannot train net vit") as caught:
        prepare(RunConfig(rule="forward-forward", net="vit", patch=2), tiny_dataset())
    assert "\n" not in str(caught.value)


def test_the_head_has_its_own_rate_and_decay_and_the_rest_the_runs() -> None:
    live = prepare(SMALL.with_(head_lr=0.3, head_weight_decay=0.2), tiny_dataset()).state
    rates: dict[float, float] = {}
    live.optimizer.set_rates(lambda rate: rates.setdefault(rate, rate))
    assert rates == {0.02: 0.02, 0.3: 0.3}


@pytest.mark.slow
def test_goodness_learns_the_digits_and_that_of_its_control_knows_nothing(tmp_path: Path) -> None:
    # A rate that falls: at a constant one the accuracy jumps by ten points from epoch to epoch.
    config = SMALL.with_(epochs=12, predict_by="goodness", log_every=12, schedule="cosine")
    own, control = (
        fit(config.with_(rule=rule), tmp_path).rows()[-1] for rule in (config.rule, "frozen-forward-forward")
    )
    assert own["test_acc"] is not None and control["test_acc"] is not None
    assert own["test_acc"] > 0.6 and control["test_acc"] < 0.3


def test_a_stop_changes_nothing(tmp_path: Path) -> None:
    survives_a_stop(SMALL, tmp_path)
