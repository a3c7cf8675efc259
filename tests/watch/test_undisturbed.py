"""Watching never disturbs: with and without it, training ends with the same weights bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import faudit
from tests.support.loops import LOOPS, Stack
from tests.support.models import batch, everything


def hooked() -> nn.Module:
    """A stack whose hooks draw random numbers in training, change a gradient and the gradient of a weight."""
    model = Stack()
    model.embed.register_forward_hook(
        lambda mod, _args, out: out + 0.1 * torch.randn_like(out) if mod.training else out
    )
    model.blocks[0].register_full_backward_hook(halved)
    model.head.weight.register_hook(lambda grad: grad * random.random())
    return model


def halved(_module: nn.Module, grads: Any, _out: Any) -> Any:
    return tuple(0.5 * grad for grad in grads)


MODELS: dict[str, Callable[[], nn.Module]] = {"stack": Stack, "tied": lambda: Stack(tied=True), "hooked": hooked}
CASES = [*((loop, "stack") for loop in LOOPS), ("plain", "tied"), ("noisy", "hooked")]


def trained(loop: str, model: nn.Module, *, runs: Path | None, called: nn.Module | None = None) -> dict[str, Any]:
    """All that a model consists of after training; with ``runs``, it is watched."""
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    running = model if called is None else called
    if runs is None:
        LOOPS[loop](running, lambda epoch: None, lambda x, y: None)
        return told(model)
    with faudit.watch(
        running, eval_batch=batch(), taps="blocks.*", runs=runs, probe_epochs=[1], credit=credit, strict=True
    ) as w:

        def log(epoch: int) -> None:
            before = everything(model)
            w.log(epoch, lr=0.1)
            assert everything(model) == before

        def compare(x: Tensor, y: Tensor) -> None:
            before = everything(model)
            assert w.compare(x, y) is not None
            assert everything(model) == before

        LOOPS[loop](running, log, compare)
    assert [row["epoch"] for row in w.run.rows()] == [0, 1, 2]
    return told(model)


def told(model: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in everything(model).items() if name not in ("objects", "attributes")}


def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
    random.random(), np.random.rand(), torch.rand(1)
    return [torch.ones_like(h) for h in taps]


@pytest.mark.filterwarnings("ignore:Full backward hook")  # torch, where no input needs a gradient
@pytest.mark.parametrize(("loop", "model"), CASES)
def test_training_is_the_same_bit_for_bit(
    loop: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faudit.probes.perturbation.DIRECTIONS", 4)  # each costs three passes; four show as much
    wanted = trained(loop, MODELS[model](), runs=None)
    assert trained(loop, MODELS[model](), runs=tmp_path) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_the_same_bit_for_bit(in_place: bool, tmp_path: Path) -> None:
    found = []
    for runs in (None, tmp_path):
        torch.compiler.reset()
        model = Stack()
        called: Any = model
        if in_place:
            model.compile(backend="eager")
        else:
            called = torch.compile(model, backend="eager")
        found.append(trained("plain", model, runs=runs, called=called))
    assert found[0] == found[1]


def test_hooks_that_only_look_do_not_see_the_measurements(tmp_path: Path) -> None:
    model, seen = Stack(), list[int]()
    model.blocks[0].register_forward_hook(lambda _module, _args, out: seen.append(len(out)))
    with faudit.watch(model, eval_batch=batch(11), taps="blocks.*", runs=tmp_path) as w:
        seen.clear()
        w.log(0)
        assert seen == []


def test_a_hook_that_changes_a_state_is_part_of_the_model(tmp_path: Path) -> None:
    norms = []
    for factor in (1.0, 3.0):
        model = Stack()
        model.embed.register_forward_hook(lambda _module, _args, out, factor=factor: factor * out)
        with faudit.watch(model, eval_batch=batch(), taps="blocks.*", runs=tmp_path / str(factor)) as w:
            norms.append(w.rows[0]["hidden_norms"][0])
    assert norms[1] == pytest.approx(3.0 * norms[0], rel=1e-5)


def test_attributes_that_change_in_the_loop_are_followed(tmp_path: Path) -> None:
    class Scaled(Stack):
        scale = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.scale = 1.0

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.scale * x)

    model = Scaled()
    model.embed.bias.data.zero_()
    with faudit.watch(model, eval_batch=batch(), taps="blocks.*", runs=tmp_path) as w:
        model.scale = 2.0
        w.log(0)
    assert w.rows[1]["hidden_norms"][0] == pytest.approx(2.0 * w.rows[0]["hidden_norms"][0], rel=1e-6)


def test_rows_inside_autocast_are_in_full_precision(tmp_path: Path) -> None:
    with faudit.watch(Stack(), eval_batch=batch(), taps="blocks.*", runs=tmp_path) as w:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            row = w.log(1)
        assert row is not None and row["hidden_norms"] == w.rows[0]["hidden_norms"]
