"""``w.compare`` holds the user's update against autograd's gradient; a second computation in numpy agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit
from faudit.watch.compare import CHUNK, Comparison, compared
from faudit.watch.loop import Watch
from tests.support.loops import Stack
from tests.support.models import CLASSES, WIDTH, batch


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    stack = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3)]
    return nn.Sequential(*stack, nn.Linear(WIDTH, CLASSES)).double()


def by_hand(model: nn.Sequential, x: Tensor, y: Tensor) -> dict[str, np.ndarray]:
    """∂(mean cross-entropy)/∂W and ∂/∂b in numpy, from the chain rule."""
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    states = [x.numpy()]
    for l in range(3):
        states.append(np.tanh(states[-1] @ weights[f"{l}.0.weight"].T + weights[f"{l}.0.bias"]))
    logits = states[-1] @ weights["3.weight"].T + weights["3.bias"]
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    delta = (chances - np.eye(CLASSES)[y.numpy()]) / len(x)
    found = {"3.weight": delta.T @ states[3], "3.bias": delta.sum(axis=0)}
    delta = delta @ weights["3.weight"]
    for l in (2, 1, 0):
        delta = delta * (1 - states[l + 1] ** 2)
        found |= {f"{l}.0.weight": delta.T @ states[l], f"{l}.0.bias": delta.sum(axis=0)}
        delta = delta @ weights[f"{l}.0.weight"]
    return found


def agreement(own: np.ndarray, true: np.ndarray) -> tuple[float, float, float]:
    cosine = float(own @ true / np.sqrt(own @ own) / np.sqrt(true @ true))
    return cosine, float(np.linalg.norm(own) / np.linalg.norm(true)), float(np.mean(np.sign(own) == np.sign(true)))


def opened(model: nn.Module, runs: Path, dtype: torch.dtype = torch.float64, **options: Any) -> Watch:
    taps = ["0", "1", "2"] if isinstance(model, nn.Sequential) else "blocks.*"
    return faudit.watch(model, eval_batch=batch(dtype=dtype), taps=taps, runs=runs, light=True, **options)


@pytest.mark.parametrize("handed_over", [False, True])
def test_cosine_ratio_and_signs_are_those_of_a_computation_by_hand(handed_over: bool, tmp_path: Path) -> None:
    model, (x, y) = mlp(), batch(dtype=torch.float64, seed=3)
    updates = {name: torch.randn_like(value) + 0.01 for name, value in model.named_parameters()}
    with opened(model, tmp_path) as w:
        if not handed_over:
            for name, value in model.named_parameters():
                value.grad = updates[name].clone()
        found = w.compare(x, y, updates=updates if handed_over else None)
        row = w.log(1)
    assert isinstance(found, Comparison) and row is not None
    true = by_hand(model, x, y)
    for name, one in found.parameters.items():
        wanted = agreement(updates[name].numpy().ravel(), true[name].ravel())
        assert (one.cosine, one.ratio, one.sign) == pytest.approx(wanted, rel=1e-10)
        assert one.count == updates[name].numel() and one.chance == pytest.approx(1.96 / one.count**0.5)
    parts = {"blocks.0": "0.", "blocks.1": "1.", "blocks.2": "2.", "readout": "3."}
    for place, (part, head) in enumerate([("embed", "?"), *parts.items()]):
        names = [name for name in true if name.startswith(head)]
        if not names:
            assert row["compare_cosines"][place] is None
            continue
        own, bp = (np.concatenate([np.asarray(one[name]).ravel() for name in names]) for one in (updates, true))
        wanted = agreement(own, bp)
        told = (row["compare_cosines"][place], row["compare_ratios"][place], row["compare_signs"][place])
        assert told == pytest.approx(wanted, rel=1e-10), part
    own, bp = (np.concatenate([np.asarray(one[name]).ravel() for name in true]) for one in (updates, true))
    assert (row["compare_cosine"], row["compare_ratio"], row["compare_sign"]) == pytest.approx(agreement(own, bp))
    assert "blocks.1" in str(found) and "all" in str(found)


def test_backprop_agrees_with_itself_in_training_mode_and_its_negative_does_not(tmp_path: Path) -> None:
    """BatchNorm takes the statistics of the batch and dropout the masks of the user's own pass."""
    model, (x, y) = Stack().train(), batch(seed=3)
    with opened(model, tmp_path, torch.float32) as w:
        began = torch.get_rng_state()
        F.cross_entropy(model(x), y).backward()
        found = w.compare(x, y, rng_state=began)
        assert found is not None and found.overall.cosine == pytest.approx(1.0, abs=1e-6)
        assert found.overall.ratio == pytest.approx(1.0, abs=1e-5) and found.overall.is_above_chance
        other = w.compare(x, y)
        assert other is not None and other.overall.cosine is not None and other.overall.cosine < 0.999, "other masks"
        for value in model.parameters():
            assert value.grad is not None
            value.grad.neg_()
        against = w.compare(x, y, rng_state=began)
        assert against is not None and against.overall.cosine == pytest.approx(-1.0, abs=1e-6)
        assert against.overall.sign == 0.0 and not against.overall.is_above_chance


def test_random_updates_are_inside_the_band_of_chance(tmp_path: Path) -> None:
    model, (x, y) = mlp(), batch(dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    inside = 0
    with opened(model, tmp_path) as w:
        for _ in range(40):
            noise = {n: torch.randn(v.shape, generator=draw).double() for n, v in model.named_parameters()}
            found = w.compare(x, y, updates=noise)
            assert found is not None and found.overall.cosine is not None and found.overall.chance is not None
            inside += abs(found.overall.cosine) <= found.overall.chance
    assert 34 <= inside <= 40


def test_tiny_gradients_keep_their_direction(tmp_path: Path) -> None:
    """Exploded nets have true gradients below the smallest float32: their products must not vanish."""
    model, (x, y) = mlp().float(), batch()
    with opened(model, tmp_path, torch.float32) as w:
        true = {name: torch.from_numpy(value).float() for name, value in by_hand(model, x, y).items()}
        found = w.compare(x, y, updates={name: 1e-30 * value for name, value in true.items()})
    assert found is not None and found.overall.cosine == pytest.approx(1.0, abs=1e-6)
    assert found.overall.ratio == pytest.approx(1e-30, rel=1e-5) and found.overall.sign == 1.0


def test_the_sign_of_an_entry_counts_however_small_it_is(tmp_path: Path) -> None:
    """One large entry makes the norms ordinary; the products of the others are below the smallest float32."""
    model, (x, y) = mlp().float(), batch()
    with opened(model, tmp_path, torch.float32) as w:
        true = {name: torch.from_numpy(value).float() for name, value in by_hand(model, x, y).items()}
        updates = {name: -1e-44 * value.sign() for name, value in true.items()}
        for name, value in updates.items():
            value.view(-1)[0] = true[name].view(-1)[0]
        found = w.compare(x, y, updates=updates)
    assert found is not None
    for name, one in found.parameters.items():
        assert one.sign == pytest.approx(1 / int((true[name] != 0).sum())), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_of_many_chunks_is_one_vector(dtype: torch.dtype) -> None:
    """Three chunks, the last of them short; the second has squares that float32 cannot hold."""
    draw = torch.Generator().manual_seed(0)
    u, g = (torch.randn(2 * CHUNK + 77, generator=draw, dtype=torch.float64) for _ in range(2))
    u[CHUNK : 2 * CHUNK] *= 1e-25
    g[CHUNK : 2 * CHUNK] *= 1e-20
    u[5], g[-5] = 0.0, 0.0
    own, true = u.to(dtype), g.to(dtype)
    parts = {"first": "embed", "second": "readout"}
    found = compared({"first": own}, {"first": true, "second": true}, parts)
    one, exact = found.parameters["first"], agreement(own.double().numpy(), true.double().numpy())
    assert one.cosine is not None and one.ratio is not None
    assert (one.cosine, one.ratio) == pytest.approx(exact[:2], rel=1e-6, abs=1e-7)
    counted = (own != 0) & (true != 0)
    assert one.sign == float((own.sign() == true.sign())[counted].double().mean()) and int(counted.sum()) == len(u) - 2
    assert found.parts["readout"].cosine is None and found.parts["readout"].count == len(u), "no update is zeros"
    assert found.overall.ratio == pytest.approx(one.ratio / 2**0.5, rel=1e-6)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("what", ["update", "gradient"])
def test_numbers_that_are_not_finite_are_one_warning_and_no_divergence(what: str, value: float, tmp_path: Path) -> None:
    """AMP makes infinite gradients and skips the step: the network did not diverge."""
    model, (x, y) = mlp().float(), batch()

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits, y, reduction="none") * factor

    factor = 1.0
    with opened(model, tmp_path, torch.float32, loss=loss) as w:
        F.cross_entropy(model(x), y).backward()
        grad = model.get_parameter("1.0.weight").grad
        assert grad is not None
        if what == "update":
            grad[0, 0] = value
        else:
            factor = value
        with pytest.warns(UserWarning, match=rf"the {what} of '.*': expected finite numbers, got NaN or infinity"):
            assert w.compare(x, y) is None
        factor = 1.0
        row = w.log(1)
    assert row is not None and "compare_cosine" not in row and w.run.status == "done"


def test_a_sparse_gradient_is_compared_as_the_dense_one(tmp_path: Path) -> None:
    class Words(nn.Module):
        def __init__(self, *, sparse: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words = nn.Embedding(7, 8, sparse=sparse)
            self.block, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(self.words(x).mean(dim=1)))  # type: ignore[no-any-return]

    _, y = batch()
    x = torch.randint(7, (len(y), 3), generator=torch.Generator().manual_seed(0))
    found = []
    for sparse in (True, False):
        model = Words(sparse=sparse)
        with faudit.watch(model, eval_batch=(x, y), taps="block", runs=tmp_path / str(sparse), light=True) as w:
            F.cross_entropy(model(x), y).backward()
            found.append(w.compare(x, y))
    assert found[0] == found[1] and found[0] is not None and found[0].overall.cosine == pytest.approx(1.0, abs=1e-6)


def test_parameters_without_an_update_count_as_zeros_and_frozen_ones_not_at_all(tmp_path: Path) -> None:
    model, (x, y) = mlp(), batch(dtype=torch.float64)
    with opened(model, tmp_path) as w:
        model[0].requires_grad_(False)
        F.cross_entropy(model(x), y).backward()
        model.get_parameter("1.0.weight").grad = None
        found = w.compare(x, y)
    assert found is not None and "blocks.0" not in found.parts
    assert found.parameters["1.0.weight"].cosine is None and found.parts["blocks.1"].ratio is not None
    assert found.parts["blocks.1"].ratio < 1.0 and found.parts["readout"].cosine == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("updates", "says"),
    [
        (None, "expected .grad of some parameter, got none"),
        ({"0.0.wait": torch.zeros(1)}, "no parameter '0.0.wait', did you mean '0.0.weight'"),
        ({"0.0.weight": torch.zeros(2, 2)}, r"expected the shape of the parameter, \[8, 8\], got float32 \[2, 2\]"),
    ],
)
def test_what_cannot_be_compared_is_one_warning_and_the_loop_goes_on(updates: Any, says: str, tmp_path: Path) -> None:
    model, (x, y) = mlp(), batch(dtype=torch.float64)
    with opened(model, tmp_path) as w:
        with pytest.warns(UserWarning, match=says):
            assert w.compare(x, y, updates=updates) is None
        assert w.compare(x, y, updates=updates) is None, "the same text is told once"
        row = w.log(1)
    assert row is not None and "compare_cosine" not in row and w.run.status == "done"
