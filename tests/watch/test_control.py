"""The control of a watched loop: the same start, blocks frozen to the last bit, its accuracy kept with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import faudit
from faudit.store import controls
from faudit.watch.loop import Watch
from tests.support.loops import Stack
from tests.support.models import batch


@pytest.fixture
def w(tmp_path: Path) -> Watch:
    model = Stack()
    with faudit.watch(model, eval_batch=batch(), taps="blocks.*", runs=tmp_path) as watch:
        watch.log(1)
    return watch


def by_optimizer(model: nn.Module) -> None:
    """Fills .grad of every parameter, whatever its flag, as a rule written by hand does."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(5):
        x, y = batch(seed=step)
        copy = Stack()
        copy.load_state_dict(model.state_dict())
        F.cross_entropy(copy(x), y).backward()
        for value, other in zip(model.parameters(), copy.parameters(), strict=True):
            value.grad = other.grad
        optimizer.step()


def test_the_blocks_stay_frozen_and_the_rest_trains(w: Watch) -> None:
    made: list[nn.Module] = []

    def make() -> nn.Module:
        torch.manual_seed(77)
        made.append(Stack())
        nn.init.ones_(made[0].get_submodule("head").weight)  # type: ignore[arg-type]  # another start, to be replaced
        return made[0]

    def train(model: nn.Module) -> None:
        assert not any(value.requires_grad for value in model.get_submodule("blocks").parameters())
        assert all(value.requires_grad for value in model.get_submodule("embed").parameters())
        assert torch.equal(model.get_submodule("head").weight, w.shadow.initial["head.weight"])  # type: ignore[arg-type]
        by_optimizer(model)

    accuracy = faudit.control(make, train, of=w)
    state = made[0].state_dict()
    moved = {name for name, value in state.items() if not torch.equal(value, w.shadow.initial[name])}
    assert moved == {"embed.weight", "embed.bias", "head.weight", "head.bias"}
    x, y = batch()
    assert accuracy == float((made[0].eval()(x).argmax(dim=1) == y).double().mean())
    assert controls.read(w.run) == [accuracy]
    faudit.control(make, by_optimizer, of=w)
    assert len(controls.read(w.run)) == 2


def test_the_loop_of_the_control_may_log_and_compare_which_then_does_nothing(tmp_path: Path) -> None:
    def loop(model: nn.Module) -> None:
        for epoch in range(2):
            by_optimizer(model)
            found.append(w.compare(*batch()))
            found.append(w.log(epoch))

    model, found = Stack(), list[Any]()
    with faudit.watch(model, eval_batch=batch(), taps="blocks.*", runs=tmp_path) as w:
        loop(model)
        assert len(found) == 4 and None not in found
        faudit.control(Stack, loop, of=w)  # inside the block, too
        assert w.log(2) is not None
    faudit.control(Stack, loop, of=w)
    assert found[4:] == [None] * 8 and [row["epoch"] for row in w.run.rows()] == [0, 1, 2, 3]
    assert len(controls.read(w.run)) == 2


def by_hand(model: nn.Module) -> None:
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1)


@pytest.mark.parametrize(
    ("make", "train", "says"),
    [
        (Stack, by_hand, r"expected the frozen blocks as they were, got a change in 'blocks\.0\.0\.weight'"),
        (lambda: 3, by_hand, "expected a function that returns a torch.nn.Module, got int"),
        (lambda: nn.Linear(2, 2), by_hand, "expected the weights of the watched model, got a difference in"),
    ],
)
def test_what_is_no_control_is_refused_and_not_attached(make: Any, train: Any, says: str, w: Watch) -> None:
    with pytest.raises(faudit.FauditError, match=says):
        faudit.control(make, train, of=w)
    assert controls.read(w.run) == []
