"""`faudit data check`: says what a dataset holds and whether its files are the official ones."""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import torch

from faudit.data import DATASETS, check
from faudit.data.sources import SOURCES, File, Source
from tests.support.file_server import md5
from tests.support.idx_files import REAL_MNIST, needs_real_mnist


def gzip_version() -> bytes:
    """What the gzip program says about itself, nothing where there is none."""
    program = shutil.which("gzip")
    return subprocess.run([program, "--version"], capture_output=True, check=False).stdout if program else b""


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


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Tiny files that pass for the official MNIST, packed and unpacked."""
    paths = tiny_mnist(tmp_path / "mnist")
    files = tuple(
        File(file.url, md5(raw := path.read_bytes()), file.unpacked, md5(gzip.decompress(raw)))
        for file, path in zip(SOURCES["mnist"].files, paths, strict=True)
    )
    monkeypatch.setitem(SOURCES, "mnist", Source(files, SOURCES["mnist"].folders))
    return paths


def test_a_file_packed_again_is_compared_by_its_content(official: list[Path], tmp_path: Path) -> None:
    path = official[0]
    content = gzip.decompress(path.read_bytes())
    for packed in (gzip.compress(content, 1, mtime=1), content):  # also where it is not packed at all
        path.write_bytes(packed)
        assert check.origin("mnist", tmp_path) == [
            f"files: {path} is not packed like the official archive, but its content matches the official checksum"
        ]
    changed = gzip.compress(content[:-1] + b"\x01")
    path.write_bytes(changed)
    (line,) = check.origin("mnist", tmp_path)
    assert line.startswith(
        "warning: differs from the official files: results are comparable only with runs on the same"
    )
    assert f"({path}: expected md5 {SOURCES['mnist'].files[0].md5}, got {md5(changed)})" in line


def test_an_unpacked_file_is_compared_where_its_checksum_is_known(official: list[Path], tmp_path: Path) -> None:
    unpacked = official[3].with_suffix("")
    content = gzip.decompress(official[3].read_bytes())
    unpacked.write_bytes(content)
    assert check.origin("mnist", tmp_path) == ["files: match the official checksums"]
    unpacked.write_bytes(content[:-1] + b"\x01")
    (line,) = check.origin("mnist", tmp_path)
    assert line.startswith("warning: differs from the official files")
    assert f"({unpacked}: expected md5 {md5(content)}, got " in line


def test_where_only_the_archives_checksum_is_known_the_warning_says_so(tmp_path: Path) -> None:
    assert all(file.content_md5 is None for name in SOURCES if name != "mnist" for file in SOURCES[name].files)
    (path, *_) = tiny_mnist(tmp_path / "fashion-mnist")
    lines = check.origin("fashion-mnist", tmp_path)
    assert len(lines) == 4
    assert lines[0].startswith(
        "warning: differs from the official archive; the content may still be official, but only"
    )
    assert f"({path}: expected md5 8d4fb7e6c68d591d4c3dfef9ec88bf0d, got {md5(path.read_bytes())})" in lines[0]


@needs_real_mnist
def test_real_mnist_compressed_again_is_recognised_by_its_content() -> None:
    lines = check.origin("mnist", REAL_MNIST)
    assert len(lines) == 4
    assert all("but its content matches the official checksum" in line for line in lines)


# The first bytes of the official archives: the name and the time that gzip stored, in the order of the files.
STORED = (
    ("train-images.idx3-ubyte", 848_331_386),
    ("train-labels.idx1-ubyte", 848_331_398),
    ("t10k-images.idx3-ubyte", 885_827_245),
    ("t10k-labels.idx1-ubyte", 885_827_268),
)


@needs_real_mnist
@pytest.mark.skipif(b"Free Software" not in gzip_version(), reason="only GNU gzip compresses to the official bytes")
@pytest.mark.parametrize("number", range(4))
def test_the_content_checksums_are_those_of_the_official_archives(number: int) -> None:
    file, (name, seconds) = SOURCES["mnist"].files[number], STORED[number]
    content = gzip.decompress((REAL_MNIST / file.name).read_bytes())
    assert md5(content) == file.content_md5
    command = ["gzip", "-6", "--no-name", "--stdout"]
    packed = subprocess.run(command, input=content, capture_output=True, check=True).stdout
    head = struct.pack("<4BI2B", 0x1F, 0x8B, 8, 8, seconds, 0, 3) + name.encode() + b"\0"
    assert md5(head + packed[10:]) == file.md5


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
