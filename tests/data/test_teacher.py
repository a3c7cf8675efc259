"""The teacher–student task is made on the spot, the same everywhere, and not trivial."""

from __future__ import annotations

import torch

from faudit.data.teacher import CLASSES, TEST, TRAIN, teacher


def test_the_task_is_the_same_every_time_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    data = teacher()
    assert torch.equal(before, torch.get_rng_state())
    assert (
        data.fingerprint()
        == teacher().fingerprint()
        == ("8b88e13227f23597fedb518f45a7a76c896af64cecaec5c35c5c91aa0ef3d83d")
    )


def test_every_class_occurs_often_and_inputs_are_gaussian() -> None:
    data = teacher()
    assert (len(data.train_x), len(data.test_x)) == (TRAIN, TEST)
    assert int(data.train_y.bincount(minlength=CLASSES).min()) > 0.02 * TRAIN
    assert abs(float(data.train_x.mean())) < 0.01 and abs(float(data.train_x.std()) - 1) < 0.01
    assert torch.equal(data.normalise(data.test_x), data.test_x)
