"""IDX files: gzip is known by its content, memory follows the bytes, and a wrong file is refused in one line."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from torch import Tensor

from faudit.data.idx import MAX_BYTES, mnist, read_idx
from faudit.errors import DataError
from tests.support.idx_files import REAL_MNIST, assert_holds, idx, needs_real_mnist, write


def read(raw: bytes, shape: tuple[int, ...] = (28, 28)) -> Tensor:
    return read_idx(io.BytesIO(raw), "here", shape=shape)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_gzip_is_known_by_its_magic_not_by_its_name(tmp_path: Path, zipped: bool, suffix: str) -> None:
    data = mnist(write(tmp_path, suffix=suffix, zipped=zipped))
    assert_holds(data)
    assert (data.name, data.mean, data.std) == ("mnist", (0.1307,), (0.3081,))
    assert (data.scale, data.crop, data.flip, data.classes) == (255.0, 0, False, 10)


GOOD = idx(torch.arange(2 * 28 * 28).remainder(256).to(torch.uint8).view(2, 28, 28))


def header(*sizes: int) -> bytes:
    return struct.pack(f">4B{len(sizes)}I", 0, 0, 8, len(sizes), *sizes)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected magic 00000803, got "),
        (b"PK\x03\x04" + GOOD[4:], "got 504b0304"),
        (b"\x00\x00\x0d\x03" + GOOD[4:], "got 00000d03"),
        (idx(torch.zeros(2, dtype=torch.uint8)), "got 00000801"),
        (GOOD[:10], "expected 16 bytes, got 10"),
        (header(0, 28, 28), r"got \[0, 28, 28\]"),
        (header(2, 28, 27) + GOOD[16:], r"got \[2, 28, 27\]"),
        (header(2, 0, 28) + GOOD[16:], r"got \[2, 0, 28\]"),
        (header(3, 28, 28) + GOOD[16:], "expected 2352 bytes, got 1568"),
        (header(1, 28, 28) + GOOD[16:], "expected 784 bytes, got more"),
        (GOOD + b"\x00", "expected 1568 bytes, got more"),
        (header(2**32 - 1, 28, 28) + GOOD[16:], f"1 to {MAX_BYTES} bytes"),
        (gzip.compress(GOOD)[:-1], "damaged gzip"),
        (gzip.compress(GOOD)[:-8] + bytes(8), "CRC check failed"),
        (gzip.compress(GOOD) + b"more", "damaged gzip"),
        (gzip.compress(GOOD) + gzip.compress(b"\x00"), "expected 1568 bytes, got more"),
        (b"\x1f\x8b", "damaged gzip"),
    ],
)
def test_a_file_that_is_not_right_is_refused_in_one_line(raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(raw)
    assert "\n" not in str(caught.value)
    assert "(here)" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        header(300_000, 28, 28) + bytes(100),  # promises 235 MB, holds 100 bytes
        gzip.compress(header(300_000, 28, 28) + bytes(100)),
        gzip.compress(header(2, 28, 28) + bytes(1 << 25)),  # 32 MB of zeros in 32 kB
        gzip.compress(header(2**31, 28, 28) + bytes(1 << 25)),
    ],
    ids=["plain", "zipped", "bomb", "bomb with a matching header"],
)
def test_memory_follows_the_bytes_not_the_header(raw: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            read(raw)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_good_file_is_read_exactly() -> None:
    for raw in (GOOD, gzip.compress(GOOD)):
        array = read(raw)
        assert array.flatten().tolist() == list(GOOD[16:])
        assert array.shape == (2, 28, 28)


@pytest.mark.parametrize("raw", [GOOD, gzip.compress(GOOD)], ids=["plain", "zipped"])
def test_a_file_cut_anywhere_is_refused(raw: bytes) -> None:
    for end in {*range(40), *range(40, len(raw), 31), len(raw) - 1}:
        with pytest.raises(DataError):
            read(raw[:end])


@pytest.mark.parametrize("zipped", [False, True])
def test_a_flipped_bit_gives_an_array_or_a_data_error(zipped: bool) -> None:
    raw = bytearray(gzip.compress(GOOD) if zipped else GOOD)
    choose = random.Random(0)
    for _ in range(400):
        at, bit = choose.randrange(len(raw) if zipped else 40), 1 << choose.randrange(8)
        raw[at] ^= bit
        try:
            assert read(bytes(raw)).shape == (2, 28, 28)
        except DataError as error:
            assert "(here)" in str(error)
        raw[at] ^= bit


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("train-labels-idx1-ubyte", torch.zeros(5, dtype=torch.uint8), "expected 6 labels, got 5"),
        ("t10k-labels-idx1-ubyte", torch.tensor([0, 10, 9], dtype=torch.uint8), r"expected 0\.\.9, got 10"),
        ("t10k-images-idx3-ubyte", torch.zeros(3, 32, 32, dtype=torch.uint8), r"got \[3, 32, 32\]"),
    ],
)
def test_images_and_labels_must_pair_and_be_in_range(tmp_path: Path, name: str, array: Tensor, message: str) -> None:
    write(tmp_path)
    (tmp_path / f"{name}.gz").write_bytes(idx(array))
    with pytest.raises(DataError, match=message) as caught:
        mnist(tmp_path)
    assert name.split("-")[0] in str(caught.value)


def test_a_file_the_disk_cannot_give_is_a_data_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("faudit.data.idx.open", refuse, raising=False)
    with pytest.raises(DataError, match=r"Permission denied .*train-images"):
        mnist(tmp_path)


@needs_real_mnist
def test_real_mnist_is_read_whole_and_its_constants_are_right() -> None:
    data = mnist(REAL_MNIST)
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.test_y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    levels = data.train_x.flatten().bincount(minlength=256).double()
    grey = torch.arange(256).double() / 255
    mean = float((levels * grey).sum() / levels.sum())
    assert round(mean, 4) == data.mean[0]
    assert round(float((levels * (grey - mean) ** 2).sum() / levels.sum()) ** 0.5, 4) == data.std[0]
