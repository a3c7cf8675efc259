"""Controls: ``frozen-<rule>`` is derived from every rule, and is that rule with blocks that never train."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from faudit import RunConfig
from faudit.audit.audit import case_of, control_of
from faudit.audit.checks.check import NOT_MEASURED
from faudit.audit.protocol import PROTOCOLS
from faudit.errors import ConfigError
from faudit.experiment import prepare, refuse_unused
from faudit.rules import RULES, Rules, control_name
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.frozen import frozen, frozen_before, outside_blocks
from faudit.rules.rule import Step
from faudit.store.rows import Row
from faudit.sweep.study import CONTROLS
from tests.support.cases import HEALTHY
from tests.support.nets import TINY_NETS, Setup, tiny_dataset

PLAIN = [name for name in RULES if name not in RULES.controls]
SLOW = pytest.mark.slow


def test_every_rule_has_one_control_and_every_control_a_rule() -> None:
    assert set(RULES) == {*PLAIN, *map(control_name, PLAIN)} and len(RULES) == 2 * len(PLAIN)
    assert {"bp", "fa", "dfa", "frozen-bp", "frozen-fa", "frozen-dfa"} <= set(RULES)
    assert ("matched", *RULES.controls) == CONTROLS
    assert all(control_name(name) == name for name in RULES.controls)


@pytest.mark.parametrize("name", PLAIN)
def test_a_control_is_made_once_with_the_fields_of_its_rule(name: str) -> None:
    kind, control = RULES[name], RULES[control_name(name)]
    assert control is frozen(kind) is RULES[control_name(name)] and frozen(control) is control
    assert issubclass(control, kind) and control() == control() != kind()
    told = [(entry.name, entry.type, entry.default) for entry in dataclasses.fields(control)]
    assert told == [(entry.name, entry.type, entry.default) for entry in dataclasses.fields(kind)]


def test_a_rule_says_whether_its_blocks_train(rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    trained = {name for name in setup.params if not outside_blocks(name) and setup.rule.trains(name)}
    assert bool(trained) is setup.rule.trains_blocks is (rule_name not in RULES.controls)


@pytest.mark.parametrize(
    ("name", "net_name"),
    [
        pytest.param(name, net, marks=[] if net in ("resmlp", "mlp") or name in ("bp", "fa-weights") else SLOW)
        for name in PLAIN
        for net in TINY_NETS
    ],
)
def test_a_control_teaches_embedding_and_readout_what_its_rule_teaches_them(name: str, net_name: str) -> None:
    plain, control = Setup(name, net_name), Setup(control_name(name), net_name)
    want, got = plain.grads(), control.grads()
    left = {name for name in plain.state if not control.rule.trains_state(name)}  # the feedback of frozen blocks
    assert got.keys() == {name for name in want if outside_blocks(name)} - left
    for parameter, gradient in got.items():
        torch.testing.assert_close(gradient, want[parameter], rtol=1e-12, atol=1e-15, msg=parameter)
    if plain.rule.no_credit:
        return
    first, *others = control.credit()
    assert torch.equal(first, plain.rule.embedding_credit(plain.net, plain.state, plain.credit()[0]))
    assert not any(bool(credit.any()) for credit in others)


def test_the_list_of_rules_tells_of_controls_without_torch() -> None:
    code = (
        "import sys; from faudit.rules import RULES; "
        "assert RULES.summary('frozen-dfa') == 'Blocks frozen at init, embedding taught by dfa.'; "
        "assert all(map(RULES.summary, RULES)) and 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass(frozen=True)
class Own(BP):
    """Somebody's own: a step that gives every parameter a gradient, whatever is trained, and another default."""

    penalty: float = 0.5

    def step(self, *args: Any, **named: Any) -> Step:
        step = BP().step(*args, **named)
        return Step(step.loss, step.logits, {name: 2 * grad for name, grad in step.grads.items()})


@dataclass(frozen=True)
class Headless(DFA):
    """Somebody's own that trains no readout, and of which there is no control."""

    no_control: ClassVar[str | None] = "its blocks are all it trains"


def test_a_control_of_a_rule_of_ones_own_keeps_its_defaults_and_its_step() -> None:
    setup = Setup("bp", "resmlp")
    rule = frozen(Own)()
    assert vars(rule) == {"penalty": 0.5} and type(rule).__name__ == "FrozenOwn" and not rule.trains_blocks
    got = rule.step(setup.net, setup.params, setup.state, setup.x, setup.y).grads
    assert got.keys() == {name for name in setup.params if outside_blocks(name)}
    for name, gradient in setup.grads().items():
        assert name not in got or torch.equal(got[name], 2 * gradient), name


def test_a_rule_without_a_control_says_why_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules({"dfa": f"{__name__}:Headless"})
    assert rules["dfa"] is Headless
    with pytest.raises(ConfigError, match="Headless has no frozen control: its blocks are all it trains") as caught:
        rules["frozen-dfa"]
    assert "\n" not in str(caught.value)
    monkeypatch.setattr("faudit.audit.audit.RULES", rules)
    case = case_of(RunConfig(rule="dfa"), [Row(HEALTHY)], samples=1000, classes=10, control=None)
    for protocol, check in (("faudit-4", "paired"), ("paper", "points")):
        found = PROTOCOLS[protocol][check].find(case)
        assert found.status == NOT_MEASURED and found.reason.endswith("can be made: its blocks are all it trains")


def test_the_control_of_a_run_is_plain_and_its_own_control(rule_name: str) -> None:
    config = RunConfig(
        rule=rule_name, penalty=0.1, clip=0.5, credit_eps=1e-3, random_targets=True, log_every=2, keep_epochs=(1,)
    )
    control = control_of(config)
    kept = {"credit_eps": 1e-3} if "credit_eps" in RULES.settings(rule_name) else {}
    assert control == control_of(control) == RunConfig(rule=control_name(rule_name), **kept)


def test_a_clip_changes_nothing_of_a_control_and_rules_without_one_take_none() -> None:
    """So every control is trained with the clip at its default, and those of one seed are one run."""
    for name in RULES.controls:
        if "clip" in RULES.settings(name):
            tight, loose = (Setup(name, "resmlp", clip=clip).grads() for clip in (1e-9, 1e9))
            assert all(torch.equal(tight[parameter], loose[parameter]) for parameter in tight)
        else:
            with pytest.raises(ConfigError, match="does not read clip"):
                refuse_unused(RunConfig(rule=name, clip=0.5))
    assert control_of(RunConfig(rule="dfa", clip=0.5)).clip == 1.0


@pytest.mark.parametrize("name", PLAIN)
def test_it_stores_what_its_rule_stores(name: str, net_name: str) -> None:
    frozen, whole = Setup(control_name(name), net_name), Setup(name, net_name)
    assert frozen.state.keys() == whole.state.keys()
    assert all(torch.equal(frozen.state[key], whole.state[key]) for key in whole.state)


def test_the_penalty_reaches_the_embedding_through_blocks_that_bp_passes_and_through_no_cut(net_name: str) -> None:
    for rule, reaches in (("frozen-bp", True), ("frozen-dfa", False), ("frozen-fa", False)):
        plain, penalised = (Setup(rule, net_name, penalty=penalty).grads() for penalty in (0.0, 0.1))
        if "embed.weight" not in plain:
            pytest.skip("its embedding has no weights")
        assert torch.equal(plain["embed.weight"], penalised["embed.weight"]) is not reaches, rule


@pytest.mark.parametrize("name", [name for name in RULES if name not in RULES.controls])
@pytest.mark.parametrize("net", ["resmlp", "cnn", "mlp"])
def test_a_rung_of_the_depth_ladder_trains_the_last_blocks_as_the_rule_does(name: str, net: str) -> None:
    full, rung = Setup(name, net), Setup(name, net)
    rung.rule = frozen_before(RULES[name], full.net.blocks - 1)()
    want, got = full.grads(), rung.grads()
    last = f"blocks.{full.net.blocks - 1}."
    moved = {key for key in want if key in full.params and (outside_blocks(key) or key.startswith(last))}
    assert {key for key in got if key in full.params} == moved and rung.rule.trains_blocks
    assert all(torch.equal(got[key], want[key]) for key in moved if key.startswith(last))


def test_the_ladder_ends_at_the_blocks_of_the_net_and_asks_for_blocks_that_train() -> None:
    data = tiny_dataset()
    run = RunConfig(rule="dfa", depth=3, width=5, batch_size=16)
    assert type(prepare(run.with_(train_last=3), data).rule).__mro__[1] is RULES["dfa"]
    for bad in (run.with_(train_last=4), run.with_(rule="frozen-dfa", train_last=1)):
        with pytest.raises(ConfigError, match=r"train-last: expected at most (3|no number)"):
            prepare(bad, data)
    assert control_of(run.with_(train_last=2)) == control_of(run), "one control for every rung"


def test_a_smaller_training_set_is_spread_over_the_whole_and_the_test_set_stays() -> None:
    data = tiny_dataset(train=60)
    experiment = prepare(RunConfig(depth=1, width=5, batch_size=5, train_size=20), data)
    assert torch.equal(experiment.batches.dataset.train_x, data.train_x[::3])
    assert experiment.dataset.fingerprint() == data.fingerprint() and experiment.dataset.test_x is data.test_x
    assert data.reduced(60) is data is data.reduced(0) is data.reduced(99)
