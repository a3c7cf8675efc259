"""Each wrong rule makes the mistake it names, and each plant after training changes what it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from faudit import RunConfig
from faudit.bench.protocol.cases import CASES, LATER, NEW, Planted
from faudit.bench.protocol.wrong_rules import FlippedDKP, FlippedKolenPollack, OppositeSigns, OtherTeacher, RandomSigns
from faudit.data import DATASETS
from faudit.experiment import Experiment, prepare
from faudit.rules.rule import Rule
from faudit.train import measure, one_epoch, read
from tests.support.nets import Setup

MLP = RunConfig(net="mlp", sizes=(12, 12, 12), epochs=1, batch_size=64, probe_epochs=(1,), eval_size=64, seed=3)


def planted(case: Planted, samples: int = 0, **changes: Any) -> Experiment:
    """The experiment of a case on the digits, or on this many of them."""
    return case.planted(prepare(case.config.with_(**changes), DATASETS["digits"](None).reduced(samples)))


def on_mlp(rule: str, plant: str = "", after: str = "", **settings: Any) -> tuple[Planted, Experiment]:
    case = Planted(False, "a test", MLP.with_(rule=rule, **settings), plant, after)
    return case, planted(case)


def feedback_of(experiment: Experiment) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in experiment.state.rule_state.items()}


def with_rule(rule: Rule, of: str) -> Setup:
    setup = Setup(of, "mlp")
    setup.rule = rule
    return setup


@pytest.mark.usefixtures("few_directions")
@pytest.mark.parametrize("name", [*NEW, *LATER])
def test_every_new_kind_trains_and_is_measured(name: str) -> None:
    case = CASES[name]
    small = {"epochs": 1, "probe_epochs": (1,), "eval_size": 20, "batch_size": 64}
    small |= {"depth": 2, "width": 8} if case.config.net == "resmlp" else {}
    experiment = planted(case, samples=192, **small)
    one_epoch(experiment, 1)
    row = measure(case.ended(experiment), 1, train_loss=None, seconds=0.0)
    assert row["test_acc"] is not None and row["block_turn"] is not None


@pytest.mark.parametrize("kind", [FlippedKolenPollack, FlippedDKP])
def test_flipped_feedback_learns_the_wrong_way_and_the_weights_do_not(kind: type[Rule]) -> None:
    of = "dkp" if kind is FlippedDKP else "kolen-pollack"
    wrong, right = with_rule(kind(), of).grads(), Setup(of, "mlp").grads()
    assert wrong.keys() == right.keys() and any(name.startswith("B.") for name in wrong)
    for name, grad in wrong.items():
        torch.testing.assert_close(grad, -right[name] if name.startswith("B.") else right[name])


def test_a_wrong_mirror_shows_minus_the_weight_and_a_shuffled_one_other_rows() -> None:
    for plant, sign in (("WrongMirror", -1.0), ("", 1.0)):
        _, experiment = on_mlp("weight-mirror", plant, mirror_lr=0.05, mirror_decay=0.5, mirror_batch=4096)
        one_epoch(experiment, 1)
        for name, value in feedback_of(experiment).items():
            weight = experiment.state.params[name.removeprefix("B.")].detach()
            assert float(torch.cosine_similarity(value.flatten(), weight.flatten(), dim=0)) * sign > 0.9
    _, shuffled = on_mlp("weight-mirror", "ShuffledMirror", mirror_batch=65_536)
    weight = torch.diag(torch.arange(1.0, 5.0))
    seen = shuffled.rule.mirrored(weight, None, generator=torch.Generator().manual_seed(0))  # type: ignore[attr-defined]  # of a mirror
    assert sorted(seen.argmax(dim=1).tolist()) == [0, 1, 2, 3] and seen.argmax(dim=1).tolist() != [0, 1, 2, 3]


def test_random_signs_are_drawn_anew_and_opposite_signs_are_minus_those_of_the_weights() -> None:
    _, experiment = on_mlp("sign-symmetry", "RandomSigns")
    rule = experiment.rule
    assert isinstance(rule, RandomSigns)
    before = feedback_of(experiment)
    one_epoch(experiment, 1)
    for name, value in rule.feedback(experiment.net, experiment.state.params, experiment.state.rule_state).items():
        own = experiment.state.params[name].detach().sign()
        assert 0.3 < float((value.sign() == own).double().mean()) < 0.7
        assert not torch.equal(value, before[f"B.{name}"])
    setup = with_rule(OppositeSigns(), "sign-symmetry")
    for name, value in OppositeSigns().feedback(setup.net, setup.params, setup.state).items():
        assert bool((value.sign() == -setup.params[name].sign()).all())


def test_another_teacher_trains_with_the_gradient_and_reports_its_feedback() -> None:
    setup, honest = with_rule(OtherTeacher(), "fa-weights"), Setup("fa-weights", "mlp")
    for name, grad in setup.exact().items():
        torch.testing.assert_close(setup.grads()[name], grad)
    for mine, theirs in zip(setup.credit(), honest.credit(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(("plant", "rule"), [("ShuffledDRTP", "drtp"), ("ShuffledLocalLoss", "local-loss")])
def test_shuffled_labels_are_those_of_the_sample_before(plant: str, rule: str) -> None:
    _, experiment = on_mlp(rule, plant)
    wrong = read(experiment)
    right = replace(wrong, rule=on_mlp(rule)[1].rule, y=wrong.y.roll(1))
    for mine, theirs in zip(wrong.credits, right.credits, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_an_error_without_labels_and_samples_mixed_up() -> None:
    reading = read(on_mlp("dfa-layers", "Unlabelled")[1])
    relabelled = replace(reading, y=(reading.y + 1) % 10)
    for mine, theirs in zip(reading.credits, relabelled.credits, strict=True):
        torch.testing.assert_close(mine, theirs)
    mixed = read(on_mlp("bp", "OtherSamples")[1])
    for block, credit in enumerate(mixed.credits):
        torch.testing.assert_close(credit, mixed.gradients[mixed.net.taught_at(block)].roll(1, dims=0))


def test_ep_nudged_the_wrong_way_has_the_opposite_credit() -> None:
    reading = read(on_mlp("ep", "WrongWayEP", beta=0.01)[1])
    right = replace(reading, rule=on_mlp("ep", beta=0.01)[1].rule)
    for mine, theirs in zip(reading.credits, right.credits, strict=True):
        torch.testing.assert_close(mine, -theirs, rtol=0.05, atol=1e-4)


def test_feedback_redrawn_at_the_weights_is_new_after_every_update() -> None:
    _, experiment = on_mlp("fa-weights", "RedrawnFAWeights")
    before = feedback_of(experiment)
    one_epoch(experiment, 1)
    assert not any(torch.equal(value, before[name]) for name, value in feedback_of(experiment).items())


def test_plants_after_training_change_the_feedback_and_leave_the_weights() -> None:
    changed = {}
    for after in ("swapped", "permuted", "exchanged", "feedback_zero"):
        case, experiment = on_mlp("kolen-pollack", after=after)
        one_epoch(experiment, 1)
        before, weights = feedback_of(experiment), {n: v.clone() for n, v in experiment.state.params.items()}
        ended = case.ended(experiment)
        assert all(torch.equal(value, weights[name]) for name, value in ended.state.params.items())
        changed[after] = before, feedback_of(ended)
    assert not any(torch.equal(value, changed["swapped"][1][name]) for name, value in changed["swapped"][0].items())
    for name, value in changed["permuted"][0].items():
        now = changed["permuted"][1][name]
        assert sorted(map(tuple, value.tolist())) == sorted(map(tuple, now.tolist())) and not torch.equal(value, now)
    first, then = changed["exchanged"]
    one, other = "B.blocks.1.weight", "B.blocks.2.weight"
    assert torch.equal(first[one], then[other]) and torch.equal(first[other], then[one])
    assert not any(bool(value.any()) for value in changed["feedback_zero"][1].values())


def test_a_layer_without_feedback_stops_the_error() -> None:
    _, experiment = on_mlp("fa-weights", "layer_zero")
    one_epoch(experiment, 1)
    row = measure(experiment, 1, train_loss=None, seconds=0.0)
    assert row["block_turn"][0] == pytest.approx(0.0, abs=1e-6) and min(row["block_turn"][1:]) > 1e-3


def test_a_planted_rule_keeps_the_settings_of_its_configuration_and_its_feedback_is_trained() -> None:
    _, experiment = on_mlp("kolen-pollack", "FlippedKolenPollack", feedback_scale=2.0)
    assert experiment.rule == FlippedKolenPollack(feedback_scale=2.0)
    before = feedback_of(experiment)
    one_epoch(experiment, 1)
    assert not any(torch.equal(value, before[name]) for name, value in feedback_of(experiment).items())
