"""Tiny CIFAR files, written opcode by opcode as Python 2 wrote the official ones, and by today's pickle."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from faudit.data.cifar import CIFAR10, CIFAR100
from faudit.data.dataset import Dataset

TINY = replace(CIFAR10, train_rows=10, test_rows=3)
TINY100 = replace(CIFAR100, train_rows=7, test_rows=4)
FIRST = f"{CIFAR10.folder}/data_batch_1"
Rows2D = NDArray[np.uint8]


def images(count: int, seed: int) -> Rows2D:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def text(value: bytes) -> bytes:
    """A Python 2 string in protocol 2."""
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    return b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value)


def listing(items: list[bytes]) -> bytes:
    return b"]q\x05(" + b"".join(items) + b"e"


U1 = b"cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(rows: Rows2D, *, shape: bytes | None = None, dtype: bytes = U1, order: bytes = b"\x89") -> bytes:
    """An ndarray as Python 2's numpy pickled it, each part open to abuse."""
    shape = shape or number(rows.shape[0]) + number(rows.shape[1]) + b"\x86"
    empty = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
    return empty + b"(K\x01" + shape + dtype + order + text(rows.tobytes()) + b"tb"


def dictionary(entries: dict[bytes, bytes]) -> bytes:
    return b"\x80\x02}q\x01(" + b"".join(text(key) + value for key, value in entries.items()) + b"u."


def python2(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """A file as the official ones are written: protocol 2 with Python 2's opcodes."""
    entries = {
        b"batch_label": text(b"training batch 1 of 5"),
        key.encode(): listing([number(label) for label in labels]),
        b"data": array(rows),
        b"filenames": listing([text(f"leptodactylus_s_{i:06}.png".encode()) + b"q\x0c" for i in range(len(rows))]),
    }
    return dictionary(entries)


def modern(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """The same by today's pickle: numpy._core, and bytes by way of _codecs.encode."""
    raw = pickle.dumps({b"data": rows, key.encode(): labels, b"filenames": [b"a.png"] * len(rows)}, protocol=2)
    return raw.replace(b"numpy.core.", b"numpy._core.")  # where numpy 1 writes the test


def respelled(rows: Rows2D, labels: list[int], *, key: str = "labels") -> bytes:
    """The same under numpy's older name, with text as keys."""
    return pickle.dumps({"data": rows, key: labels}, protocol=2).replace(b"numpy._core.", b"numpy.core.")


Writer = Callable[..., bytes]


def batches(write: Writer = python2, counts: tuple[int, ...] = (2, 2, 2, 2, 2)) -> dict[str, bytes]:
    """The six files of TINY."""
    files = {
        f"data_batch_{i}": write(images(count, i), [(i + row) % 10 for row in range(count)])
        for i, count in enumerate(counts, start=1)
    }
    return {**files, "test_batch": write(images(3, 0), [9, 0, 5])}


def folder(root: Path, files: dict[str, bytes], name: str = CIFAR10.folder) -> Path:
    (root / name).mkdir()
    for file, content in files.items():
        (root / name / file).write_bytes(content)
    return root


def assert_is_tiny(data: Dataset, counts: tuple[int, ...] = (2, 2, 2, 2, 2)) -> None:
    expected = np.concatenate([images(count, i) for i, count in enumerate(counts, start=1)])
    assert np.array_equal(data.train_x.numpy().reshape(10, 3072), expected)
    assert data.train_y.tolist() == [(i + row) % 10 for i, count in enumerate(counts, start=1) for row in range(count)]
    assert np.array_equal(data.test_x.numpy().reshape(3, 3072), images(3, 0))
    assert data.test_y.tolist() == [9, 0, 5]


def pack(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def members(files: dict[str, bytes], prefix: str = "cifar-10-batches-py/") -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(tarfile.TarInfo(prefix + name), content) for name, content in files.items()]
