"""Bad input of ``faudit.watch``: before the loop an error of one line, inside the loop a warning of one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit
from tests.support.feedback import aligned, unaligned
from tests.support.loops import Stack
from tests.support.models import WIDTH, batch


class Writing(Stack):
    """Adds each block in place."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h += block(h)
        return self.head(h)  # type: ignore[no-any-return]


class Tokens(nn.Module):
    """Token ids in, an embedding as the first submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(4, WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x).mean(dim=1))  # type: ignore[no-any-return]


X, Y = batch()
REFUSED: list[tuple[Callable[[], Any], dict[str, Any], str]] = [
    (Stack, {"taps": "block.*"}, r"the taps 'block\.\*' match no submodule"),
    (Stack, {"taps": []}, "expected at least one name or pattern, got none"),
    (Stack, {"taps": 3}, "expected names or patterns of submodules, got 3"),
    (lambda: 3, {}, "the model: expected a torch.nn.Module, got int"),
    (lambda: Stack().half(), {}, r"expected float32 or float64, got float16 \[8, 8\]\. Keep the weights in float32"),
    (lambda: Stack().bfloat16(), {}, "expected float32 or float64, got bfloat16"),
    (lambda: Stack().to("meta"), {}, "has no values yet"),
    (Stack, {"eval_batch": (X.to("meta"), Y)}, "expected on the device of the model, cpu, got meta"),
    (Stack, {"eval_batch": X}, "the eval batch: expected a pair"),
    (Stack, {"eval_batch": (X, Y[:3])}, "the eval batch: expected a pair"),
    (Stack, {"eval_batch": (X, Y + 5)}, "the labels: expected classes 0 to 4"),
    (Stack, {"loss": F.cross_entropy}, r"the loss: expected one number for each of 24 samples, got float32 \[\]"),
    (Stack, {"fresh": lambda generator: None}, "fresh: expected together with a credit"),
    (Stack, {"credit": lambda taps, logits, y: taps[1:]}, "expected a list of 2 tensors, one for each tap"),
    (Stack, {"name": "My DFA"}, "name: expected a name of small letters, digits and"),
    (Stack, {"data": "my:data"}, "data: expected text on one line without a colon, got 'my:data'"),
    (Stack, {"probe_epochs": [-1]}, "probe_epochs: expected a list of epochs"),
    (Writing, {}, r"the input of blocks\.0 is written to in place after the block has read it.*h = h \+ f"),
    (Tokens, {"taps": "embed", "eval_batch": (Y[:, None] % 4, Y)}, "takes no floating-point tensor"),
    (aligned, {}, "backward pass is not the derivative of its forward pass.*Give plain="),
]  # fmt: skip


@pytest.mark.parametrize(("make", "options", "says"), REFUSED)
def test_before_the_loop_bad_input_is_an_error_of_one_line(
    make: Callable[[], Any], options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(faudit.FauditError, match=says) as caught:
        faudit.watch(make(), **{"eval_batch": (X, Y), "taps": "blocks.*", "runs": tmp_path, **options})
    assert all("\n" not in line for line in str(caught.value).splitlines()) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "no run began"


def test_a_plain_twin_gives_the_true_gradient_of_a_model_with_feedback_inside(tmp_path: Path) -> None:
    model, plain = aligned(), unaligned()
    with faudit.watch(model, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path, plain=plain) as w:
        model.eval()
        F.cross_entropy(model(X), Y).backward()
        found = w.compare(X, Y)
    assert found is not None and found.parts["readout"].cosine == pytest.approx(1.0, abs=1e-5)
    assert found.parts["embed"].cosine is not None and found.parts["embed"].cosine < 0.99
    with faudit.watch(model, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path / "meant", plain=model) as w:
        model.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        found = w.compare(X, Y)
    assert found is not None and found.overall.cosine == pytest.approx(1.0, abs=1e-5), "its own backward is meant"


def grown(model: Stack) -> None:
    model.head = nn.Linear(WIDTH, 9)


def shrunk(model: Stack) -> None:
    del model.blocks[0][0]  # type: ignore[operator]


@pytest.mark.parametrize(("change", "name"), [(grown, "head.weight"), (shrunk, "blocks.0.0.weight")])
def test_a_model_that_changes_in_size_is_told_once_and_the_loop_goes_on(
    change: Callable[[Stack], None], name: str, tmp_path: Path
) -> None:
    model = Stack()
    with faudit.watch(model, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path) as w:
        w.log(1)
        change(model)
        with pytest.warns(UserWarning, match=f"the model has changed since it is watched: expected '{name}'") as told:
            row = w.log(2, lr=0.5)
            assert w.log(3) is not None
            assert w.compare(X, Y, updates={}) is None
        assert len(told) == 1
    strict = Stack()
    with (
        pytest.raises(faudit.FauditError, match="the model has changed since it is watched"),
        faudit.watch(strict, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path / "strict", strict=True) as asked,
    ):
        change(strict)
        asked.log(1)
    assert asked.run.status == "failed", "the caller asked for it"
    assert row is not None and row["hidden_norms"] == [None] * 3 and row["own.lr"] == 0.5
    assert [one["epoch"] for one in w.run.rows()] == [0, 1, 2, 3] and w.run.status == "done"
    assert w.verdict().verdict == "inconclusive"


@pytest.mark.parametrize(
    ("epochs", "says"),
    [
        ((0, 0), "epoch 0: expected a later one than 0, which was logged"),
        ((3, 3), "epoch 3: expected a later one than 3"),
        ((3, 2), "epoch 2: expected a later one than 3"),
        ((1, 1.5), "expected a whole number from 0 on, got 1.5"),
        ((1, -1), "expected a whole number from 0 on, got -1"),
    ],
)
def test_an_epoch_that_was_logged_or_is_none_is_left_out(epochs: tuple[Any, Any], says: str, tmp_path: Path) -> None:
    with faudit.watch(Stack(), eval_batch=(X, Y), taps="blocks.*", runs=tmp_path) as w:
        assert w.log(epochs[0]) is not None
        with pytest.warns(UserWarning, match=says):
            assert w.log(epochs[1]) is None
    assert len(w.run.rows()) == 2
    with (
        pytest.raises(faudit.FauditError, match=says),
        faudit.watch(Stack(), eval_batch=(X, Y), taps="blocks.*", runs=tmp_path / "strict", strict=True) as w,
    ):
        w.log(epochs[0])
        w.log(epochs[1])
    assert w.run.status == "failed" and len(w.run.rows()) == 2


WEIGHT = torch.ones(WIDTH, WIDTH)
NOT_COMPARED: list[tuple[Any, Any, dict[str, Any], str]] = [
    (X, Y + 5, {}, r"the loss failed: IndexError: .*Expected loss\(logits, y\) with logits float32 \[24, 5\]"),
    (X, Y.float(), {}, "the loss failed: RuntimeError"),
    (X, Y[:, None], {}, "the loss failed: RuntimeError"),
    (X, Y[:3], {}, r"the batch: expected a pair \(x, y\).*got x float32 \[24, 8\] with y int64 \[3\]"),
    (X, Y.to("meta"), {}, "the batch: expected on the device of the model, cpu, got meta"),
    (X.to("meta"), Y, {}, "the batch: expected on the device of the model, cpu, got meta"),
    (X[:, :3], Y, {}, r"the model failed on its input, float32 \[24, 3\]"),
    (X * torch.nan, Y, {}, "expected finite inputs, got NaN or infinity in x"),
    (X, Y, {"updates": [WEIGHT]}, "updates: expected a mapping from the names of parameters to tensors, got list"),
    (X, Y, {"updates": {"embed.weight": WEIGHT.to("meta")}}, "expected real numbers on the device .* cpu, .* on meta"),
    (X, Y, {"updates": {"embed.weight": WEIGHT + 1j}}, r"expected real numbers .* got complex64 \[8, 8\] on cpu"),
    (X, Y, {"rng_state": 3}, r"rng_state: expected what torch.get_rng_state\(\) returned, got int"),
    (X, Y, {"rng_state": torch.zeros(3)}, r"rng_state: expected what torch.get_rng_state\(\) returned, got float32"),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y", "options", "says"), NOT_COMPARED)
def test_a_batch_that_cannot_be_compared_never_ends_the_training(
    x: Any, y: Any, options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    model = Stack()
    F.cross_entropy(model(X), Y).backward()
    with faudit.watch(model, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path, light=True) as w:
        with pytest.warns(UserWarning, match=says) as told:
            assert w.compare(x, y, **options) is None
        assert "\n" not in str(told[0].message)
        assert w.compare(X, Y) is not None, "the next one is compared"
    assert w.run.status == "done"
    with (
        pytest.raises(faudit.FauditError, match=says),
        faudit.watch(model, eval_batch=(X, Y), taps="blocks.*", runs=tmp_path / "s", light=True, strict=True) as w,
    ):
        w.compare(x, y, **options)
    assert w.run.status == "failed"


def test_outside_its_block_a_watch_writes_nothing(tmp_path: Path) -> None:
    w = faudit.watch(Stack(), eval_batch=(X, Y), taps="blocks.*", runs=tmp_path)
    with pytest.warns(UserWarning, match="w.log: expected inside the `with` block of the watch, got it outside"):
        assert w.log(1) is None
    with w:
        w.log(1)
    with pytest.warns(UserWarning, match="w.compare: expected inside the `with` block"):
        assert w.log(2) is None and w.compare(X, Y, updates={}) is None
    assert len(w.run.rows()) == 2 and w.run.status == "done"


def test_values_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    with faudit.watch(Stack(), eval_batch=(X, Y), taps="blocks.*", runs=tmp_path) as w:
        with pytest.warns(UserWarning, match="note: expected a number, got str"):
            assert w.log(1, note="hello") is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch's own, of a number in a graph
            row = w.log(1, lr=torch.tensor(0.5, requires_grad=True), lost=float("nan"), best=float("inf"))
    assert w.run.status == "done", "what a number of the caller's means is unknown"
    assert row is not None and row["own.lr"] == 0.5 and w.run.rows()[1]["own.lost"] != w.run.rows()[1]["own.lost"]


def test_a_credit_that_fails_later_costs_its_own_numbers_only(tmp_path: Path) -> None:
    wrong = False

    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        if wrong:
            raise ValueError("no feedback left")
        return [torch.ones_like(h) for h in taps]

    with faudit.watch(Stack(), eval_batch=(X, Y), taps="blocks.*", runs=tmp_path, credit=credit) as w:
        wrong = True
        with pytest.warns(UserWarning, match="the credit callable failed: ValueError: no feedback left"):
            row = w.log(1)
    assert row is not None and row["gamma"] == [None, None] and None not in row["hidden_norms"]
