"""The shipped digits are the UCI digits, split fairly, and normalised by what was measured on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from faudit.data.digits import digits

FINGERPRINT = "877cdd52e7b429fbcdc38609bf7805fc9d2db57211d6251446bd3e3e82a15872"


def test_all_1797_digits_are_there_and_split_at_1437() -> None:
    data = digits()
    assert data.train_x.shape == (1437, 1, 8, 8)
    assert data.test_x.shape == (360, 1, 8, 8)
    assert data.sample_shape == (1, 8, 8)
    assert (data.scale, data.crop, data.flip, data.classes) == (16.0, 0, False, 10)


def test_content_is_that_of_the_uci_file() -> None:
    data = digits(Path("/nowhere"))
    x, y = torch.cat((data.train_x, data.test_x)), torch.cat((data.train_y, data.test_y))
    assert (int(x.min()), int(x.max()), int(x.sum())) == (0, 16, 561718)
    assert y.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_same_images_with_the_same_labels_as_scikit_learn() -> None:
    bundled = pytest.importorskip("sklearn.datasets").load_digits()
    data = digits()
    ours = torch.cat((data.train_x, data.test_x)).flatten(1).tolist()
    labels = torch.cat((data.train_y, data.test_y)).tolist()
    theirs = [[*map(int, row), int(label)] for row, label in zip(bundled.data, bundled.target, strict=True)]
    assert sorted([*row, label] for row, label in zip(ours, labels, strict=True)) == sorted(theirs)


def test_order_and_split_never_change() -> None:
    assert digits().fingerprint() == FINGERPRINT


def test_every_class_has_a_fifth_of_its_samples_in_test() -> None:
    data = digits()
    test = data.test_y.bincount()
    share = test / (test + data.train_y.bincount())
    assert ((share > 0.195) & (share < 0.205)).all()


def test_classes_are_mixed_within_the_splits() -> None:
    data = digits()
    for labels in (data.train_y, data.test_y):
        assert labels[:100].unique().numel() == 10


def test_mean_and_std_are_those_of_the_training_split() -> None:
    data = digits()
    x = data.train_x.double() / 16
    assert data.mean == (round(float(x.mean()), 4),)
    assert data.std == (round(float(x.std(correction=0)), 4),)
    normal = data.normalise(data.train_x)
    assert abs(float(normal.mean())) < 1e-3
    assert abs(float(normal.std()) - 1) < 1e-3
