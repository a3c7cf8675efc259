"""A stack trains every run to the bits of the run alone, whichever runs are beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from faudit.config import RunConfig
from faudit.data.digits import digits
from faudit.experiment import Experiment, prepare, threads
from faudit.rules.local import LocalRule
from faudit.stack.plan import NETS, RULES
from faudit.stack.stack import Stack, agrees, short, tensors_of
from faudit.train import one_epoch

DATA = digits(None).reduced(200)
SMALL: dict[str, dict[str, Any]] = {"resmlp": {"width": 16, "depth": 2}, "mlp": {"sizes": (24, 16)}}
VARIED = [
    {"seed": 1, "lr": 1e-3, "penalty": 1e-2, "weight_decay": 0.01},
    {"seed": 2, "lr": 3e-3, "penalty": 1e-2, "weight_decay": 0.1},
    {"seed": 1, "lr": 1e-3, "penalty": 1e-1, "weight_decay": 0.01},
]
FORMS: list[dict[str, Any]] = [
    {"net": "resmlp", "width": 20, "depth": 3},
    {"net": "resmlp", "width": 16, "depth": 2, "no_residual": True, "w2_std": 0.5},
    {"net": "resmlp", "width": 16, "depth": 2, "no_terminal_norm": True},
    {"net": "resmlp", "width": 16, "depth": 3, "train_last": 1},
    {"net": "resmlp", "width": 16, "depth": 2, "random_targets": True},
    {"net": "resmlp", "width": 16, "depth": 2, "credit_norm": "none"},
    {"net": "resmlp", "width": 16, "depth": 2, "clip": 0.3},
    {"net": "resmlp", "width": 16, "depth": 2, "embedding_feedback": "none"},
    {"net": "resmlp", "width": 16, "depth": 2, "optimizer": "sgd", "momentum": 0.9},
    *(
        {"net": "mlp", "sizes": (24, 17), "activation": name}
        for name in ("tanh", "relu", "leaky-relu", "sigmoid", "linear")
    ),
    {"net": "mlp", "sizes": (24,), "no_bias": True},
]

READ = {
    "credit_norm": ("dfa", "fa"),
    "clip": ("dfa", "fa"),
    "embedding_feedback": ("fa",),
}  # the rules that read a setting


def prepared(configs: Sequence[RunConfig]) -> list[Experiment]:
    return [prepare(config, DATA) for config in configs]


def varied(**settings: Any) -> list[RunConfig]:
    return [RunConfig(**{"batch_size": 64, "epochs": 3, **settings, **own}) for own in VARIED]


def train(experiments: Sequence[Experiment], epochs: int) -> list[list[float]]:
    """The losses of runs that are trained as a stack."""
    stack = Stack(experiments)
    with threads(1):
        return [stack.epoch([epoch] * len(experiments)) for epoch in range(1, epochs + 1)]


def same(one: Experiment, other: Experiment) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors_of(one), tensors_of(other), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_and_net_trains_to_the_same_bits_as_alone(rule: str, net: str, dtype: str) -> None:
    configs = varied(rule=rule, net=net, dtype=dtype, **SMALL[net])
    alone, together = prepared(configs), prepared(configs)
    with threads(1):
        wanted = [[one_epoch(one, epoch) for one in alone] for epoch in (1, 2, 3)]
    assert train(together, 3) == wanted
    assert all(map(same, alone, together))
    assert not same(together[0], together[1])
    assert rule.startswith("frozen-") or not same(together[0], together[2]), "the penalty is that of each run"


@pytest.mark.parametrize(
    ("rule", "form"),
    [
        (rule, form)
        for form in FORMS
        for rule in ("bp", "dfa", "fa")
        if all(rule in READ.get(name, RULES) for name in form)
    ],
    ids=str,
)
def test_every_form_of_a_net_or_rule_trains_to_the_same_bits_as_alone(rule: str, form: dict[str, Any]) -> None:
    configs = varied(rule=rule, **form)
    alone, together = prepared(configs), prepared(configs)
    with threads(1):
        wanted = [one_epoch(one, 1) for one in alone]
    assert train(together, 1) == [wanted]
    assert all(map(same, alone, together))


def test_the_bits_of_a_run_depend_neither_on_the_others_nor_on_how_many_they_are() -> None:
    """Batches of 29 rows and 10 classes: a run does not fill whole vectors of the processor."""
    configs = [
        RunConfig(rule="dfa", width=20, depth=2, batch_size=29, seed=seed, lr=1e-3 * seed) for seed in range(1, 8)
    ]
    (wanted,) = alone = prepared(configs[3:4])
    train(alone, 2)
    for others in (configs, configs[2:4], configs[3:6], [*reversed(configs)]):
        together = prepared(others)
        train(together, 2)
        assert same(together[others.index(configs[3])], wanted)


def test_runs_may_be_at_different_epochs_and_change_between_stack_and_alone() -> None:
    configs = varied(rule="fa", **SMALL["resmlp"])
    alone, together = prepared(configs), prepared(configs)
    with threads(1):
        for epoch in (1, 2, 3, 4):
            for one in alone:
                one_epoch(one, epoch)
        one_epoch(together[0], 1)  # it is one epoch ahead of the others
        Stack(together).epoch([2, 1, 1])
        Stack(together[1:]).epoch([2, 2])
        Stack(together).epoch([3, 3, 3])
        for one in together:
            one_epoch(one, 4)
    assert all(map(same, alone, together))


def test_neighbours_of_one_rate_keep_their_own_counts_of_steps() -> None:
    base = RunConfig(rule="bp", **SMALL["resmlp"], schedule="constant", epochs=3)  # one rate in every epoch
    configs = [base.with_(seed=seed) for seed in (1, 2, 3)]
    alone, together = prepared(configs), prepared(configs)
    with threads(1):
        for epoch in (1, 2, 3):
            for one in alone:
                one_epoch(one, epoch)
        one_epoch(together[0], 1)
        Stack(together[:2]).epoch([2, 1])
        Stack(together).epoch([3, 2, 1])
        Stack(together[1:]).epoch([3, 2])
        one_epoch(together[2], 3)
    assert all(map(same, alone, together))


def test_numbers_that_overflow_stay_in_their_run() -> None:
    configs = [RunConfig(rule="bp", optimizer="sgd", **SMALL["resmlp"], lr=lr, seed=1) for lr in (1e30, 0.1)]
    (calm,) = alone = prepared(configs[1:])
    together = prepared(configs)
    train(alone, 2)
    (_, losses) = train(together, 2)
    assert losses[0] != losses[0], "it diverged"
    assert same(together[1], calm)


def test_a_rehearsal_agrees_and_changes_nothing() -> None:
    experiments, before = prepared(varied(rule="dfa", **SMALL["mlp"])), prepared(varied(rule="dfa", **SMALL["mlp"]))
    with threads(1):
        assert agrees(experiments)
        assert all(map(same, experiments, before))
        assert [one_epoch(one, 1) for one in experiments] == [one_epoch(one, 1) for one in before], "same generators"


def test_a_rehearsal_has_a_batch_of_every_size() -> None:
    (one,) = prepared([RunConfig(width=8, depth=1, batch_size=64)])
    few = short(one)
    assert [len(x) for x, _ in few.batches.epoch(few.state.generators)] == [64, 200 % 64]


def test_a_rehearsal_notices_a_run_that_a_stack_would_train_in_another_way() -> None:
    """The stack takes rule and net from its first run, so it would train the second with a wrong clip."""
    one, other = prepared(varied(rule="dfa", **SMALL["resmlp"])[:2])
    assert isinstance(other.rule, LocalRule)
    odd = replace(other, rule=replace(other.rule, clip=1e-3))
    with threads(1):
        assert agrees([one, other]) and not agrees([one, odd])


def test_on_another_device_equal_to_rounding_is_enough() -> None:
    from faudit.stack.stack import alike

    a, b = torch.ones(3), torch.ones(3) + 1e-5
    assert alike(a, b, exact=False) and not alike(a, b, exact=True) and not alike(a, a + 1e-2, exact=False)


def test_checkpoints_hold_the_tensors_of_one_run(tmp_path: Path) -> None:
    from faudit.store import checkpoint

    together = prepared(varied(rule="bp", **SMALL["resmlp"]))
    train(together, 1)
    checkpoint.save(tmp_path / "a", together[1].state, 1, ties={})
    found, _ = checkpoint.load(tmp_path / "a")
    assert all(torch.equal(found[f"net/{name}"], value) for name, value in together[1].state.params.items())
    assert {name.split("/")[-1] for name in found if name.startswith("optimizer/")} == {"exp_avg", "exp_avg_sq", "step"}
