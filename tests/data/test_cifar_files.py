"""CIFAR's files: every spelling of them is read to the byte, one file at a time, and the official counts hold."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from faudit.data import cifar
from faudit.data.cifar import cifar10, cifar100, load
from faudit.errors import DataError
from tests.support.cifar_files import (
    FIRST,
    TINY,
    TINY100,
    Writer,
    array,
    assert_is_tiny,
    batches,
    dictionary,
    folder,
    images,
    listing,
    members,
    modern,
    number,
    pack,
    python2,
    respelled,
)


@pytest.mark.parametrize("write", [python2, modern, respelled])
def test_every_spelling_of_the_files_is_read_to_the_byte(tmp_path: Path, write: Writer) -> None:
    data = load(TINY, folder(tmp_path, batches(write)))
    assert_is_tiny(data)
    assert data.train_x.shape == (10, 3, 32, 32)
    assert (data.name, data.classes, data.crop, data.flip, data.scale) == ("cifar10", 10, 4, True, 255.0)


def test_arrays_written_by_column_are_read_by_column() -> None:
    rows = np.asfortranarray(images(3, 1))
    pixels, _ = cifar.read_batch(modern(rows, [0, 1, 2]), "here", layout=TINY)
    assert np.array_equal(pixels, rows)


def test_channels_come_red_green_blue_and_rows_from_the_top(tmp_path: Path) -> None:
    files = batches()
    rows = images(2, 1)
    rows[0, 1024 + 32 * 3 + 5] = 77  # green, fourth row, sixth column
    files["data_batch_1"] = python2(rows, [1, 2])
    assert int(load(TINY, folder(tmp_path, files)).train_x[0, 1, 3, 5]) == 77


def test_files_may_hold_any_number_of_rows_as_long_as_the_total_is_right(tmp_path: Path) -> None:
    counts = (1, 4, 2, 1, 2)
    assert_is_tiny(load(TINY, folder(tmp_path, batches(counts=counts))), counts)


def test_one_file_at_a_time_is_in_memory(tmp_path: Path) -> None:
    files = {f"data_batch_{i}": python2(images(400, i), [0] * 400) for i in range(1, 6)}
    folder(tmp_path, {**files, "test_batch": python2(images(3, 0), [0] * 3)})
    tracemalloc.start()
    try:
        load(replace(TINY, train_rows=2000), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(files["data_batch_1"])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("counts", [(2, 2, 2, 2, 1), (2, 2, 2, 2, 3)])
def test_another_total_is_refused(tmp_path: Path, counts: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"expected 10, got {sum(counts)}"):
        load(TINY, folder(tmp_path, batches(counts=counts)))


def test_cifar10_and_cifar100_insist_on_the_official_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data_batch_5: expected 50000, got 10"):
        cifar10(folder(tmp_path, batches()))
    train, test = python2(images(7, 1), [99] * 7, key="fine_labels"), python2(images(4, 2), [0] * 4, key="fine_labels")
    folder(tmp_path, {"train": train, "test": test}, "cifar-100-python")
    with pytest.raises(DataError, match="train: expected 50000, got 7"):
        cifar100(tmp_path)


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    def write(count: int, seed: int) -> bytes:
        fine, coarse = [number(99 - i) for i in range(count)], [number(i) for i in range(count)]
        entries = {
            b"fine_labels": listing(fine),
            b"coarse_labels": listing(coarse),
            b"data": array(images(count, seed)),
        }
        return dictionary(entries)

    data = load(TINY100, folder(tmp_path, {"train": write(7, 1), "test": write(4, 2)}, "cifar-100-python"))
    assert data.train_y.tolist() == [99, 98, 97, 96, 95, 94, 93]
    assert np.array_equal(data.test_x.numpy().reshape(4, 3072), images(4, 2))
    assert (data.classes, data.mean) == (100, (0.5071, 0.4865, 0.4409))


def test_data_dir_may_be_the_folder_or_the_archive_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, batches())
    assert_is_tiny(load(TINY, tmp_path / "cifar-10-batches-py"))
    monkeypatch.chdir(tmp_path / "cifar-10-batches-py")
    assert_is_tiny(load(TINY, Path()))
    assert_is_tiny(load(TINY, pack(tmp_path / "mine.tgz", members(batches()))))


def test_missing_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--data-dir DIR; get them with `faudit data fetch cifar10 --data-dir DIR`"):
        cifar10(None)
    with pytest.raises(DataError, match=r"cifar-100-python\.tar\.gz .*`faudit data fetch cifar100") as caught:
        cifar100(tmp_path)
    assert f"looked in {tmp_path})" in str(caught.value)
    with pytest.raises(DataError, match=r"looked in .*cifar-10-batches-py\)"):
        cifar10(tmp_path / "cifar-10-batches-py")
    files = batches()
    del files["data_batch_4"]
    with pytest.raises(DataError, match=r"cannot read data_batch_4: .*No such file"):
        load(TINY, folder(tmp_path, files))


def test_a_file_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "MAX_FILE", 5000)
    with pytest.raises(DataError, match="at most 5000 bytes"):
        load(TINY, folder(tmp_path, batches()))
    with pytest.raises(DataError, match=f"at most 5000 bytes, .*{FIRST} in "):
        load(TINY, pack(tmp_path / "c.tar.gz", members(batches())))


@pytest.mark.skipif("FAUDIT_CIFAR10" not in os.environ, reason="FAUDIT_CIFAR10 names no folder with the real CIFAR-10")
def test_real_cifar10_is_read_whole_and_its_constants_are_right() -> None:
    data = cifar10(Path(os.environ["FAUDIT_CIFAR10"]))
    assert data.train_x.shape == (50_000, 3, 32, 32)
    assert data.train_y.bincount().tolist() == [5000] * 10
    assert data.test_y.bincount().tolist() == [1000] * 10
    for channel in range(3):
        levels = data.train_x[:, channel].flatten().bincount(minlength=256).double()
        grey = torch.arange(256).double() / 255
        mean = float((levels * grey).sum() / levels.sum())
        std = float((levels * (grey - mean) ** 2).sum() / levels.sum()) ** 0.5
        assert mean == pytest.approx(data.mean[channel], abs=1e-3)  # a copy by way of JPEG differs this much
        assert std == pytest.approx(data.std[channel], abs=2e-3)
