"""MNIST and Fashion-MNIST, and their IDX format: a magic number, the sizes, then the bytes, often gzipped.

Y. LeCun, C. Cortes and C. Burges, The MNIST Database of Handwritten Digits, 1998. H. Xiao, K. Rasul and R. Vollgraf,
Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms, arXiv:1708.07747, 2017.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.data.sources import locate
from faudit.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
MAX_BYTES = 1 << 28  # five times the largest official file; a header that promises more is refused
CHUNK = 1 << 20
ADVICE = "Get the file again, or use another copy."


def mnist(data_dir: Path | None = None) -> Dataset:
    """MNIST: 70,000 handwritten digits, 28×28, 10 classes."""
    return load("mnist", data_dir, mean=0.1307, std=0.3081)


def fashion_mnist(data_dir: Path | None = None) -> Dataset:
    """Fashion-MNIST: 70,000 pieces of clothing, 28×28, 10 classes."""
    return load("fashion-mnist", data_dir, mean=0.2860, std=0.3530)


def load(name: str, data_dir: Path | None, *, mean: float, std: float) -> Dataset:
    """Load an MNIST-like dataset from its four files."""
    train_images, train_labels, test_images, test_labels = locate(name, data_dir)
    train_x, train_y = read_split(train_images, train_labels)
    test_x, test_y = read_split(test_images, test_labels)
    return Dataset(name, train_x, train_y, test_x, test_y, classes=10, mean=(mean,), std=(std,))


def read_split(images: Path, labels: Path) -> tuple[Tensor, Tensor]:
    """Read the [N, 1, 28, 28] images of one file and the [N] labels of the other."""
    x = read_file(images, shape=(28, 28)).unsqueeze(1)
    y = read_file(labels, shape=()).long()
    if len(x) != len(y):
        raise DataError(f"images and labels do not pair: expected {len(x)} labels, got {len(y)} ({labels}). {ADVICE}")
    if int(y.max()) > 9:
        raise DataError(f"a label out of range: expected 0..9, got {int(y.max())} ({labels}). {ADVICE}")
    return x, y


def read_file(path: Path, *, shape: tuple[int, ...]) -> Tensor:
    """Read the array of one IDX file on disk."""
    try:
        with open(path, "rb") as stream:
            return read_idx(stream, str(path), shape=shape)
    except OSError as error:
        raise DataError(
            f"cannot read: expected an IDX file, got {error.strerror or error} ({path}). {ADVICE}"
        ) from error


def read_idx(stream: IO[bytes], where: str, *, shape: tuple[int, ...]) -> Tensor:
    """Read the uint8 array of an IDX stream, gzipped or not; ``shape`` is that of one sample, () for labels."""
    try:
        return parse(unzipped(stream), where, shape=shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip: expected a whole file, got {error} ({where}). {ADVICE}") from error


def unzipped(stream: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
    """The content of a gzip stream, or the stream itself if it does not start like gzip."""
    zipped = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if zipped else stream


def parse(stream: IO[bytes] | gzip.GzipFile, where: str, *, shape: tuple[int, ...]) -> Tensor:
    """Read the array of an unzipped IDX stream. The bytes that come decide how much memory it takes, not the header."""
    magic = bytes((0, 0, 8, 1 + len(shape)))  # two zeros, unsigned bytes, the number of dimensions
    size = len(magic) + 4 * (1 + len(shape))
    header = stream.read(size)
    if not header.startswith(magic):
        raise DataError(
            f"not the right kind of IDX file: expected magic {magic.hex()}, got {header[:4].hex()} ({where}). {ADVICE}"
        )
    if len(header) < size:
        raise DataError(f"the header is cut off: expected {size} bytes, got {len(header)} ({where}). {ADVICE}")
    count, *sample = struct.unpack_from(f">{1 + len(shape)}I", header, len(magic))
    promised = count * math.prod(sample)
    if tuple(sample) != shape or not 0 < promised <= MAX_BYTES:
        raise DataError(
            f"the array has the wrong size: expected [N, {', '.join(map(str, shape))}] of 1 to {MAX_BYTES} bytes, "
            f"got {[count, *sample]} ({where}). {ADVICE}"
        )
    payload = read_at_most(stream, promised + 1)
    if len(payload) != promised:
        got = "more" if len(payload) > promised else str(len(payload))
        raise DataError(f"length and header disagree: expected {promised} bytes, got {got} ({where}). {ADVICE}")
    return torch.frombuffer(payload, dtype=torch.uint8).view(count, *shape)


def read_at_most(stream: IO[bytes] | gzip.GzipFile, limit: int) -> bytearray:
    """Read a stream up to a limit, in pieces: one read of ``limit`` bytes would allocate them all before they come."""
    payload = bytearray()
    while len(payload) < limit and (chunk := stream.read(min(CHUNK, limit - len(payload)))):
        payload += chunk
    return payload
