"""IDX files: read whatever they are named, found where people keep them, refused in one line if they are not right."""

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

from faudit.data.dataset import Dataset
from faudit.data.idx import MAX_BYTES, fashion_mnist, mnist, read_idx
from faudit.errors import DataError

SHARED = Path(__file__).parents[1].parent / "shared" / "data"
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: Tensor) -> bytes:
    """An IDX file, written by the format's definition."""
    sizes = b"".join(struct.pack(">I", size) for size in array.shape)
    return b"\x00\x00\x08" + bytes([array.ndim]) + sizes + bytes(array.flatten().tolist())


def arrays(seed: int = 0) -> list[Tensor]:
    """Six training and three test images with their labels, in the order of NAMES."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((6, 28, 28), (6,), (3, 28, 28), (3,))
    tops = (256, 10, 256, 10)
    return [
        torch.randint(0, top, size, dtype=torch.uint8, generator=generator)
        for size, top in zip(sizes, tops, strict=True)
    ]


def write(folder: Path, *, seed: int = 0, suffix: str = ".gz", zipped: bool = True) -> Path:
    """The four files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(NAMES, arrays(seed), strict=True):
        raw = idx(array)
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(raw) if zipped else raw)
    return folder


def assert_holds(data: Dataset, seed: int = 0) -> None:
    """The dataset is exactly the four arrays."""
    train_x, train_y, test_x, test_y = arrays(seed)
    assert torch.equal(data.train_x.squeeze(1), train_x)
    assert torch.equal(data.test_x.squeeze(1), test_x)
    assert torch.equal(data.train_y, train_y.long())
    assert torch.equal(data.test_y, test_y.long())


def read(raw: bytes, shape: tuple[int, ...] = (28, 28)) -> Tensor:
    return read_idx(io.BytesIO(raw), "here", shape=shape)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_gzip_is_known_by_its_magic_not_by_its_name(tmp_path: Path, zipped: bool, suffix: str) -> None:
    data = mnist(write(tmp_path, suffix=suffix, zipped=zipped))
    assert_holds(data)
    assert (data.name, data.mean, data.std) == ("mnist", (0.1307,), (0.3081,))
    assert (data.scale, data.crop, data.flip, data.classes) == (255.0, 0, False, 10)


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


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the shared folder with the real MNIST is not here")
def test_real_mnist_is_read_whole_and_its_constants_are_right() -> None:
    data = mnist(SHARED)
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.test_y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    levels = data.train_x.flatten().bincount(minlength=256).double()
    grey = torch.arange(256).double() / 255
    mean = float((levels * grey).sum() / levels.sum())
    assert round(mean, 4) == data.mean[0]
    assert round(float((levels * (grey - mean) ** 2).sum() / levels.sum()) ** 0.5, 4) == data.std[0]
