"""The regression tasks are made on the spot, the same everywhere, and their targets are those of the teachers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from faudit.data import DATASETS
from faudit.data.check import check
from faudit.data.regression import INPUTS, OUTPUTS, TEST, TRAIN, teacher_linear, teacher_tanh
from faudit.errors import DataError


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("teacher-linear", "acc0c1826a023833743c4b0684520ab7b1babebba31b563717e8823d51268ac3"),
        ("teacher-tanh", "82aa29d3c98a434c5ad94ca8ac4980523e012e8d9e856bfc53a418366a593b7b"),
    ],
)
def test_a_task_is_the_same_every_time_and_leaves_the_global_generator_alone(name: str, digest: str) -> None:
    before = torch.get_rng_state()
    data = DATASETS[name](None)
    assert torch.equal(before, torch.get_rng_state()) and data.fingerprint() == digest
    assert (len(data.train_x), len(data.test_x), data.sample_shape) == (TRAIN, TEST, (1, 1, INPUTS))
    assert data.classes == 0 and data.outputs == OUTPUTS == data.train_y.shape[1]
    assert abs(float(data.train_x.mean())) < 0.01 and abs(float(data.train_x.std()) - 1) < 0.01


def fitted(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, float]:
    """The least-squares map from x to y with a constant, and its squared error relative to the best constant."""
    inputs = torch.cat([x.flatten(1).double(), torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
    weight = torch.linalg.lstsq(inputs, y.double()).solution
    rest = (inputs @ weight - y).square().sum() / (y - y.mean(dim=0)).double().square().sum()
    return weight, float(rest)


def test_a_linear_map_with_weights_up_to_one_explains_the_linear_teacher_and_no_linear_map_explains_the_other() -> None:
    linear = teacher_linear()
    weight, rest = fitted(linear.train_x, linear.train_y)
    assert rest < 1e-12, "only the rounding of the targets is left"
    assert float(weight[-1].abs().max()) < 1e-6 and 0.9 < float(weight.abs().max()) <= 1.0
    assert 0.1 < fitted(teacher_tanh().train_x, teacher_tanh().train_y)[1] < 0.9


def test_targets_of_another_shape_or_type_are_refused() -> None:
    data = teacher_linear()
    for wrong in (data.test_y[:, :3], data.test_y[:5], data.test_y.double()):
        with pytest.raises(DataError, match=r"teacher-linear test targets: expected float32 \[4000, 10\], got"):
            replace(data, test_y=wrong)


def test_a_check_says_that_there_are_no_classes() -> None:
    first, second, last = check("teacher-tanh", None)
    assert first == (
        "teacher-tanh: 30,000 training and 4,000 test samples of shape [1, 1, 30] with 10 numbers as targets"
    )
    assert second.startswith("fingerprint: sha256 ") and last == "files: ship with faudit"
