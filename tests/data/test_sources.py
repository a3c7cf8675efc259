"""Where the official files come from, and where they are found on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.data import DATASETS, SHIPPED
from faudit.data.idx import fashion_mnist, mnist
from faudit.data.sources import SOURCES
from faudit.errors import DataError
from tests.support.idx_files import assert_holds, write


def test_every_dataset_that_does_not_ship_has_a_source_with_checksums() -> None:
    assert set(SOURCES) == set(DATASETS) - set(SHIPPED)
    files = [file for source in SOURCES.values() for file in source.files]
    assert len({file.md5 for file in files}) == len(files) == 10
    assert all(len(bytes.fromhex(file.md5)) == 16 for file in files)
    assert SOURCES["cifar100"].files[0].url == "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    assert SOURCES["mnist"].files[3].url.endswith("amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz")


@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw"])
def test_mnist_is_found_in_the_usual_folders(tmp_path: Path, place: str) -> None:
    write(tmp_path / place)
    assert_holds(mnist(tmp_path))


@pytest.mark.parametrize("place", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_fashion_mnist_is_found_in_the_usual_folders(tmp_path: Path, place: str) -> None:
    write(tmp_path / place)
    data = fashion_mnist(tmp_path)
    assert_holds(data)
    assert (data.name, data.mean, data.std) == ("fashion-mnist", (0.2860,), (0.3530,))


def test_loose_files_of_the_same_names_do_not_pass_for_the_folder_of_a_dataset(tmp_path: Path) -> None:
    write(tmp_path, seed=1)
    write(tmp_path / "fashion-mnist", seed=2)
    assert_holds(fashion_mnist(tmp_path), seed=2)
    assert_holds(mnist(tmp_path), seed=1)


def test_files_are_not_mixed_from_two_folders(tmp_path: Path) -> None:
    write(tmp_path / "mnist", seed=1)
    write(tmp_path / "MNIST" / "raw", seed=2)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert_holds(mnist(tmp_path), seed=2)


def test_without_a_folder_the_error_says_how_to_get_the_files() -> None:
    with pytest.raises(
        DataError, match=r"--data-dir DIR; get them with `faudit data fetch fashion-mnist --data-dir DIR`"
    ):
        fashion_mnist(None)


def test_missing_files_are_named_with_every_place_that_was_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError) as caught:
        mnist(tmp_path)
    message = str(caught.value)
    assert f"{tmp_path}/mnist, which lacks t10k-labels-idx1-ubyte.gz;" in message
    assert f"{tmp_path}/MNIST/raw; {tmp_path})" in message
    assert f"`faudit data fetch mnist --data-dir {tmp_path}`" in message
