"""The plain trainer does the same work as faudit, and the benchmark runs end to end."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
import torch

from faudit.bench import train as bench
from faudit.data.dataset import Dataset
from faudit.nets.resmlp import ResMLP
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from tests.support.paths import ROOT


def plain() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plain_trainer", ROOT / "benchmarks" / "plain_trainer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plain_trainer"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rule", [BP(), DFA()], ids=["bp", "dfa"])
def test_plain_trainer_and_faudit_take_the_same_steps(rule: BP | DFA) -> None:
    module = plain()
    torch.manual_seed(0)
    theirs = module.PlainResMLP(inputs=20, width=8, depth=2).double()
    net = ResMLP((1, 4, 5), module.CLASSES, depth=2, width=8)
    state = {name: value.double() for name, value in rule.init(net, torch.zeros(1, 1, 4, 5), torch.Generator()).items()}
    names = {"readout.norm": "readout.0", "readout.head": "readout.1"}
    weights = dict(theirs.named_parameters())
    params = {}
    for name in net.init(torch.Generator()):
        part, last = name.rsplit(".", 1)
        params[name] = weights[f"{names.get(part, part)}.{last}"].detach().clone().requires_grad_()
    trainer = module.PlainDFA(theirs, list(state.values())) if state else module.PlainBP(theirs)
    optimizer = torch.optim.AdamW(params.values(), lr=1e-3, weight_decay=0.01, fused=True)
    for _ in range(3):
        x, y = torch.randn(6, 1, 4, 5, dtype=torch.float64), torch.randint(10, (6,))
        step = rule.step(net, params, state, x, y)
        for name, gradient in step.grads.items():
            params[name].grad = gradient
        optimizer.step()
        assert trainer.step(x, y) == pytest.approx(float(step.loss), rel=1e-9)
    for name, value in params.items():
        part, last = name.rsplit(".", 1)
        torch.testing.assert_close(value, weights[f"{names.get(part, part)}.{last}"], rtol=1e-9, atol=1e-10, msg=name)


def small_noise() -> Dataset:
    whole = bench_noise()
    return Dataset(
        "noise", whole.train_x[:300], whole.train_y[:300], whole.test_x[:50], whole.test_y[:50], 10, whole.mean,
        whole.std, crop=4, flip=True,
    )  # fmt: skip


bench_noise = bench.noise


@pytest.mark.parametrize("kind", ["Pictures", "Tensors"])
def test_the_plain_trainers_samples_are_crops_of_the_data(kind: str) -> None:
    module, data = plain(), small_noise()
    torch.manual_seed(0)
    sample, label = getattr(module, kind)(data.train_x, data.train_y)[7]
    padded = torch.nn.functional.pad(data.train_x[7], (4,) * 4)
    cuts = [padded[:, r : r + 32, c : c + 32] for r in range(9) for c in range(9)]
    cuts += [cut.flip(-1) for cut in cuts]
    assert label == int(data.train_y[7])
    assert any(torch.allclose(data.normalise(cut[None])[0], sample, atol=1e-5) for cut in cuts)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_benchmark_runs_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "noise", small_noise)
    result = bench.train_speed(data_dir=None, threads_used=1, repeats=1)
    for rule in ("bp", "dfa"):
        entry = result["rules"][rule]
        seconds = {name: values[0] for name, values in entry["seconds"].items()}
        assert entry["ratio"]["median"] == pytest.approx(seconds["plain"] / seconds["faudit"], rel=0.1)
        assert 0 < entry["probe_share"] < 1
    assert result["peak_memory_mb"] > 50 and len(bench.lines(result)) == 8
