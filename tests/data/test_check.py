"""`faudit data check`: says what a dataset holds and whether its files are the official ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from faudit.data import DATASETS, check
from faudit.data.sources import SOURCES, File, Source
from tests.support.file_server import md5


def test_check_says_what_the_digits_are() -> None:
    first, balance, fingerprint, files = check.check("digits", None)
    assert first == "digits: 1,437 training and 360 test samples of shape [1, 8, 8] in 10 classes"
    assert balance == "samples per class: 139 to 146 for training, 35 to 37 for test"
    assert fingerprint == f"fingerprint: sha256 {DATASETS['digits'](None).fingerprint()}"
    assert files == "files: ship with faudit"


def tiny_mnist(folder: Path) -> list[Path]:
    """Four IDX files with one image of every class."""
    folder.mkdir()
    paths = [folder / file.name for file in SOURCES["mnist"].files]
    for images, labels in (paths[:2], paths[2:]):
        images.write_bytes(gzip.compress(bytes.fromhex("00000803 0000000a 0000001c 0000001c") + bytes(7840)))
        labels.write_bytes(gzip.compress(bytes.fromhex("00000801 0000000a") + bytes(range(10))))
    return paths


def test_check_compares_the_files_with_the_official_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = tiny_mnist(tmp_path / "mnist")
    lines = check.check("mnist", tmp_path)
    assert lines[0] == "mnist: 10 training and 10 test samples of shape [1, 28, 28] in 10 classes"
    assert lines[1] == "samples per class: 1 for training, 1 for test"
    assert len(lines) == 7
    assert all("differs from the official files: results are comparable only with" in line for line in lines[3:])
    assert f"{paths[0]}: expected md5 f68b3c2dcbeaaa9fbdd348bbdeb94873, got {md5(paths[0].read_bytes())}" in lines[3]

    official = tuple(
        File(file.url, md5(path.read_bytes()), file.unpacked)
        for file, path in zip(SOURCES["mnist"].files, paths, strict=True)
    )
    monkeypatch.setitem(SOURCES, "mnist", Source(official, SOURCES["mnist"].folders))
    assert check.check("mnist", tmp_path)[3:] == ["files: match the official checksums"]

    unpacked = tmp_path / "mnist" / "t10k-labels-idx1-ubyte"
    unpacked.write_bytes(gzip.decompress(paths[3].read_bytes()))
    assert check.check("mnist", tmp_path)[3:] == [
        f"files: {unpacked} is unpacked: it has no archive checksum to compare with the official one"
    ]


def test_check_of_an_unpacked_folder_behind_a_link_says_that_it_has_no_checksum(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cifar-10-batches-py").symlink_to(tmp_path / "elsewhere")
    assert "is unpacked: it has no archive checksum" in check.origin("cifar10", tmp_path)[0]
    assert "is unpacked: it has no archive checksum" in check.origin("cifar10", tmp_path / "cifar-10-batches-py")[0]


def test_check_counts_a_class_without_samples() -> None:
    assert check.balance(torch.tensor([0, 0, 1]), 3) == "0 to 2"
    assert check.balance(torch.tensor([0, 1, 2]), 3) == "1"
