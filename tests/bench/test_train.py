"""The plain trainer does the same work as faudit, and the benchmark runs end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from faudit.bench import train as bench
from faudit.bench.timing import checkout_module, noise
from faudit.bench.train import Steps
from faudit.config import RUN, RunConfig
from faudit.data.dataset import Dataset
from faudit.nets.cnn import SmallCNN
from faudit.nets.net import Net
from faudit.nets.resmlp import ResMLP
from faudit.nets.vit import ViT
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA

plain = checkout_module("plain_trainer")
SHAPE = (1, 4, 4)
# Our small net, how to make the plain one of the same size, and where their names of a weight differ: ours → theirs.
PAIRS: dict[str, tuple[Net, Callable[[], nn.Module], Mapping[str, str]]] = {
    "resmlp": (
        ResMLP(SHAPE, 10, depth=2, width=8),
        partial(plain.PlainResMLP, inputs=16, width=8, depth=2),
        {"embed.": "embed.1.", "readout.norm.": "readout.0.", "readout.head.": "readout.1."},
    ),
    "vit": (
        ViT(SHAPE, 10, depth=2, width=8, patch=2, heads=2),
        partial(plain.PlainViT, shape=(1, 4), width=8, depth=2, patch=2, heads=2),
        {"embed.weight": "embed.project.weight", "embed.bias": "embed.project.bias",
         "readout.norm.": "readout.1.", "readout.head.": "readout.2."},
    ),
    "cnn": (
        SmallCNN(SHAPE, 10, width=4),
        partial(plain.PlainCNN, shape=(1, 4), width=4),
        {"embed.": "embed.0.", "blocks.0.": "blocks.0.0.", "blocks.1.": "blocks.1.0.", "blocks.2.": "blocks.2.1."},
    ),
}  # fmt: skip


def theirs_of(name: str, names: Mapping[str, str]) -> str:
    """The plain net's name of one of our weights."""
    start = next((start for start in names if name.startswith(start)), "")
    return names.get(start, "") + name[len(start) :]


@pytest.mark.parametrize("rule", [BP(), DFA()], ids=["bp", "dfa"])
@pytest.mark.parametrize("kind", PAIRS)
def test_plain_trainer_and_faudit_take_the_same_steps(kind: str, rule: BP | DFA) -> None:
    torch.manual_seed(0)
    net, make, names = PAIRS[kind]
    theirs = make().double()
    sample = torch.randn(2, *SHAPE)
    state = {name: value.double() for name, value in rule.init(net, sample, torch.Generator()).items()}
    weights = dict(theirs.named_parameters())
    params = {
        name: weights[theirs_of(name, names)].detach().clone().view(value.shape).requires_grad_()
        for name, value in net.init(torch.Generator()).items()
    }
    assert len(params) == len(weights), "every weight has its partner"
    feedback = list(state.values())
    trainer = plain.PlainDFA(theirs, sample.double(), feedback) if feedback else plain.PlainBP(theirs)
    optimizer = torch.optim.AdamW(params.values(), lr=1e-3, weight_decay=0.01, fused=True)
    for _ in range(3):
        x, y = torch.randn(6, *SHAPE, dtype=torch.float64), torch.randint(10, (6,))
        step = rule.step(net, params, state, x, y)
        for name, gradient in step.grads.items():
            params[name].grad = gradient
        optimizer.step()
        assert trainer.step(x, y) == pytest.approx(float(step.loss), rel=1e-9)
    for name, value in params.items():
        other = weights[theirs_of(name, names)].view(value.shape)
        torch.testing.assert_close(value, other, rtol=1e-9, atol=1e-10, msg=name)


@pytest.mark.parametrize("kind", ["Pictures", "Tensors"])
def test_the_plain_trainers_samples_are_crops_of_the_data(kind: str) -> None:
    data = noise(60)
    torch.manual_seed(0)
    sample, label = getattr(plain, kind)(data.train_x, data.train_y)[7]
    padded = torch.nn.functional.pad(data.train_x[7], (4,) * 4)
    cuts = [padded[:, r : r + 32, c : c + 32] for r in range(9) for c in range(9)]
    cuts += [cut.flip(-1) for cut in cuts]
    assert label == int(data.train_y[7])
    assert any(torch.allclose(data.normalise(cut[None])[0], sample, atol=1e-5) for cut in cuts)


def small(_: object) -> Dataset:
    return noise(1200)


def one_second_each(works: Mapping[str, Callable[[], object]], *, repeats: int, title: str) -> dict[str, list[float]]:
    for work in works.values():
        work()
    return {name: [1.0] * repeats for name in works}


def one_second(work: Callable[[], object]) -> float:
    work()
    return 1.0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "candidates",
    [{"faudit"}, pytest.param({"faudit", "faudit_compiled"}, marks=pytest.mark.slow)],  # compiling takes half a minute
    ids=["eager", "compiled"],
)
def test_the_benchmark_runs_end_to_end_and_scales_steps_to_an_epoch(
    candidates: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "faudit_compiled" not in candidates:
        monkeypatch.setattr(bench, "RUN", [name for name in RUN if name != "compile"])
    monkeypatch.setattr(bench, "pictures", small)
    monkeypatch.setattr(bench, "in_turns", one_second_each)
    monkeypatch.setattr(bench, "seconds", one_second)
    kept: list[dict[str, Any]] = []
    few = {"resmlp": Steps(ours=4, plain=2, rounds=2, probes=1)}
    result = bench.train_speed(
        data_dir=None, threads_used=1, repeats=3, steps=few, keep=lambda one: kept.append(deepcopy(one))
    )
    assert [list(one["nets"]["resmlp"]) for one in kept] == [["bp"], ["bp", "dfa"]], "it is kept after each case"
    assert kept[-1]["nets"] == result["nets"] and result["nets"]["resmlp"]["bp"]["probe_seconds"] == [1.0]
    for rule in ("bp", "dfa"):
        entry = result["nets"]["resmlp"][rule]
        assert set(entry["seconds"]) == {"plain", "plain_tensors", "roofline", *candidates}
        assert entry["seconds"]["plain"] == [pytest.approx(1000 / (2 * 128), abs=1e-3)] * 2
        assert (
            entry["seconds"]["faudit"]
            == entry["seconds"]["roofline"]
            == [pytest.approx(1000 / (4 * 128), abs=1e-3)] * 2
        )
        assert entry["over_roofline"]["faudit"] == {"median": 1.0, "least": 1.0, "most": 1.0}
        assert entry["faster"]["plain"]["faudit"]["median"] == 2.0
        assert entry["probe_share"] == pytest.approx(1 / (1 + 1000 / 512), abs=1e-3)
    assert {"cpu", "cores", "memory_gb", "threads", "load", "torch", "python", "commit"} <= set(result["machine"])
    assert "2.00 (2.00–2.00) × the roofline; faudit is 2.0× faster" in "\n".join(bench.lines(result))


def test_a_compiled_candidate_is_timed_if_the_config_has_that_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "one_epoch", lambda *_: None)  # the slow test above compiles it
    made = set(bench.faudits(RunConfig(data="cifar10"), noise(1200), 1)[0])
    assert made == ({"faudit", "faudit_compiled"} if "compile" in RUN else {"faudit"})
