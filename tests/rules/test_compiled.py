"""The compiled step: the numbers of the eager one, resumed bit for bit, and eager training where it cannot be made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from faudit.experiment import prepare
from faudit.rules.bp import BP
from faudit.rules.compiled import CompiledStep, NotCompiled, compiled
from faudit.rules.rule import Step
from faudit.train import fit, one_epoch
from tests.support.nets import Setup, tiny_dataset
from tests.support.runs import TINY, same_weights, survives_a_stop, without_timings

Graph = Callable[..., list[Tensor]]


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph itself in place of its code: tracing is tested without a compiler."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)


def made(setup: Setup) -> CompiledStep:
    return compiled(setup.rule, setup.net, setup.params, setup.state, setup.x, setup.y)


def equals_eager(setup: Setup) -> None:
    """Assert that the compiled step has the numbers of the eager one, at other weights and another batch too."""
    code = made(setup)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in (*setup.params.values(), *setup.state.values()):
            value.mul_(1.1)
    x, y = torch.randn(setup.x.shape, dtype=torch.float64, generator=draw), setup.y.flip(0)
    arguments = setup.params, setup.state, x, y
    before = {name: value.clone() for name, value in (setup.params | setup.state).items()}
    want = setup.rule.step(setup.net.in_training(draw), *arguments, generator=draw)
    written = {name: value.clone() for name, value in setup.params.items()}  # running statistics
    with torch.no_grad():
        for name, value in (setup.params | setup.state).items():
            value.copy_(before[name])
    got = code(setup.net.in_training(draw), *arguments, generator=draw)
    assert got.grads.keys() == want.grads.keys()
    found, wanted = ((step.loss, step.logits, *step.grads.values()) for step in (got, want))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12 * float(other.abs().max()))
    for name, value in setup.params.items():
        torch.testing.assert_close(value, written[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "net"),
    [
        pytest.param(rule, net, marks=pytest.mark.slow if net in ("vit", "resnet") and rule != "bp" else [])
        for rule in ("bp", "dfa", "fa", "frozen-dfa")
        for net in ("resmlp", "vit", "cnn", "mlp-relu", "resnet")
    ],
)
@pytest.mark.usefixtures("uncompiled")
def test_the_traced_step_is_the_eager_one(rule: str, net: str) -> None:
    equals_eager(Setup(rule, net))


@pytest.mark.slow
@pytest.mark.parametrize("net", ["resmlp", "mlp", "cnn"])
@pytest.mark.parametrize("rule", ["bp", "dfa", "fa"])
def test_the_compiled_step_is_the_eager_one(rule: str, net: str) -> None:
    equals_eager(Setup(rule, net))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["bp", "dfa"])
def test_a_compiled_run_that_was_stopped_ends_with_the_same_bits(rule: str, tmp_path: Path) -> None:
    survives_a_stop(TINY.with_(rule=rule, compile=True), tmp_path)
    calm = fit(TINY.with_(rule=rule, compile=True), tmp_path / "calm")
    assert calm.environment()["compile"] == "compiled"
    eager = fit(TINY.with_(rule=rule), tmp_path / "calm")
    assert calm.rows()[-1]["train_loss"] == pytest.approx(eager.rows()[-1]["train_loss"], rel=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_the_last_smaller_batch_is_eager_and_the_others_are_compiled() -> None:
    experiment = prepare(TINY.with_(compile=True, batch_size=25), tiny_dataset())
    step = experiment.step
    assert isinstance(step, CompiledStep)
    sizes: list[int] = []

    def counting(*given: Any) -> list[Tensor]:
        sizes.append(len(given[2]))
        return step.code(*given)

    experiment.__dict__["step"] = replace(step, code=counting)
    one_epoch(experiment, 1)
    assert sizes == [25, 25] and experiment.batches.samples == 60


@pytest.mark.usefixtures("uncompiled")
def test_compiling_changes_no_weight_and_draws_from_no_generator_of_the_run() -> None:
    experiment = prepare(TINY.with_(net="mlp", batch_norm=True, compile=True), tiny_dataset(300))
    held = [value.detach().clone() for value in experiment.state.params.values()]
    states = [generator.get_state() for generator in experiment.state.generators.values()]
    assert isinstance(experiment.step, CompiledStep)
    assert all(map(torch.equal, held, experiment.state.params.values()))
    assert all(map(torch.equal, states, (one.get_state() for one in experiment.state.generators.values())))


def test_a_step_that_draws_random_numbers_is_not_compiled() -> None:
    with pytest.raises(NotCompiled, match="draws random numbers"):
        compiled_dropout()


def compiled_dropout() -> None:
    experiment = prepare(TINY.with_(net="mlp", dropout=0.5, batch_size=30), tiny_dataset())
    live, data = experiment.state, experiment.dataset
    x, y = data.normalise(data.train_x[:30]), data.train_y[:30]
    compiled(experiment.rule, experiment.net, live.params, live.rule_state, x, y)


@dataclass(frozen=True)
class Looking(BP):
    """A step that depends on a value."""

    def step(self, *args: Any, **named: Any) -> Step:
        step = super().step(*args, **named)
        return step if float(step.loss) > 0.1 else replace(step, grads={})


def test_a_step_that_depends_on_values_is_not_compiled() -> None:
    setup = Setup("bp", "resmlp")
    setup.rule = Looking()
    with pytest.raises(NotCompiled, match=r"RuntimeError: .*data-dependent"):
        made(setup)


def test_a_compiler_that_gets_it_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Graph, **_: Any) -> Graph:
        return lambda *given: [result * 1.01 for result in graph(*given)]

    monkeypatch.setattr(torch, "compile", wrong)
    with pytest.raises(NotCompiled, match="other results"):
        made(Setup("dfa", "resmlp"))


def test_without_a_compiler_a_run_is_trained_eagerly_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> Graph:
        raise FileNotFoundError("g++\nis not there")

    monkeypatch.setattr(torch, "compile", missing)
    asked = TINY.with_(compile=True)
    with pytest.warns(UserWarning, match=f"^{asked.run_id} is trained without --compile: FileNotFoundError: g\\+\\+$"):
        run = fit(asked, tmp_path)
    eager = fit(TINY, tmp_path)
    assert run.environment()["compile"] == "eager" and "compile" not in eager.environment()
    assert same_weights(run, eager) and without_timings(run.rows()) == without_timings(eager.rows())


def test_a_resumed_run_says_that_its_step_is_no_longer_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faudit.store.run import Run
    from faudit.train import stream

    asked = TINY.with_(compile=True)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "compile", lambda graph, **_: graph)
        rows = stream(asked, Run(tmp_path / asked.run_id))
        next(rows)
        next(rows)
        rows.close()  # type: ignore[attr-defined]  # stream is a generator
    monkeypatch.setattr(torch, "compile", lambda *_, **__: 1 / 0)
    with pytest.warns(UserWarning) as caught:
        run = fit(asked, tmp_path)
    told = [str(one.message) for one in caught]
    assert any("without --compile: ZeroDivisionError" in line for line in told)
    assert any("compile was compiled, is now eager: results may differ" in line for line in told)
    assert run.status == "done" and run.environment()["resumed"][-1]["compile"] == "eager"


@pytest.mark.slow
def test_the_command_line_without_a_compiler_prints_one_line_and_trains(tmp_path: Path) -> None:
    words = ["train", "--compile", "--epochs", "1", "--width", "8", "--depth", "1", "--runs", str(tmp_path / "runs")]
    there = {**os.environ, "CXX": str(tmp_path / "missing"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "faudit", *words], capture_output=True, text=True, env=there, timeout=300, check=False
    )
    told = [line for line in done.stderr.splitlines() if "compile" in line]
    assert done.returncode == 0 and len(told) == 1 and "is trained without --compile" in told[0]
    assert "Traceback" not in done.stderr
