"""The official files of each dataset: their addresses, their checksums, and where they are looked for on disk.

This module does not import torch, so that the command line starts fast.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import IO

from faudit.errors import DataError

TORONTO = "https://www.cs.toronto.edu/~kriz/"
CHUNK = 1 << 18


@dataclass(frozen=True)
class File:
    """One official file.

    ``unpacked`` is the name that the file has after unpacking: a file for .gz, a folder for .tar.gz. ``content_md5`` is
    the checksum of the unpacked file, or None where faudit does not know it.
    """

    url: str
    md5: str
    unpacked: str
    content_md5: str | None = None

    @property
    def name(self) -> str:
        """The file's own name, the last part of its address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Source:
    """The files of one dataset, and the folders below the data folder that may hold them. ``fetch`` uses the first."""

    files: tuple[File, ...]
    folders: tuple[str, ...]


IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

# Checksums of the archive and of its content. Those of MNIST's content are proven: a test compresses files that have
# them and gets the official archives. For the other datasets only the checksum of the archive is known.
MNIST_MD5 = (
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
)
FASHION_MNIST_MD5 = (
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
    ("25c81989df183df01b3e8a0aad5dffbe", None),
    ("bef4ecab320f06d8554ea6380940ec79", None),
    ("bb300cfdad3c16e7a12a480ee83cd310", None),
)


def idx_files(base: str, checksums: tuple[tuple[str, str | None], ...]) -> tuple[File, ...]:
    """The four files of an MNIST-like dataset; ``checksums`` has (archive, content) in the order of IDX_NAMES."""
    pairs = zip(IDX_NAMES, checksums, strict=True)
    return tuple(File(f"{base}{name}.gz", archive, name, content) for name, (archive, content) in pairs)


# MNIST and Fashion-MNIST use the same four file names, so a dataset's own folder comes before the data folder itself.
SOURCES: dict[str, Source] = {
    "cifar10": Source(
        (File(f"{TORONTO}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "cifar-10-batches-py"),), ("",)
    ),
    "cifar100": Source(
        (File(f"{TORONTO}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python"),), ("",)
    ),
    "mnist": Source(idx_files("https://ossci-datasets.s3.amazonaws.com/mnist/", MNIST_MD5), ("mnist", "MNIST/raw", "")),
    "fashion-mnist": Source(
        idx_files("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", FASHION_MNIST_MD5),
        ("fashion-mnist", "FashionMNIST/raw", ""),
    ),
}


def locate(name: str, data_dir: Path | None) -> list[Path]:
    """Find the files of a dataset, all in one folder, in the order of its source.

    An unpacked file is preferred to its archive, because it is faster to read.
    """
    command = f"`faudit data fetch {name} --data-dir {data_dir or 'DIR'}`"
    if data_dir is None:
        raise DataError(
            f"{name} does not ship with faudit: expected its files in --data-dir DIR; get them with {command}."
        )
    source = SOURCES[name]
    if len(source.files) == 1 and (os.path.isfile(data_dir) or is_unpacked(data_dir, source.files[0])):
        return [data_dir]
    looked: list[str] = []
    for folder in (data_dir / part for part in source.folders):
        found = {file.name: path for file in source.files if (path := look(folder, file)) is not None}
        if len(found) == len(source.files):
            return list(found.values())
        lacking = [file.name for file in source.files if file.name not in found]
        looked.append(f"{folder}, which lacks {' and '.join(lacking)}" if found else str(folder))
    names = ", ".join(f"{file.name} (or {file.unpacked})" for file in source.files)
    raise DataError(f"{name} was not found: expected {names} (looked in {'; '.join(looked)}). Get them with {command}.")


def is_unpacked(path: Path, file: File) -> bool:
    """Whether the path has the file's unpacked name, also when it is written as "." or is a link."""
    names = os.path.basename(os.path.abspath(path)), os.path.basename(os.path.realpath(path))
    return file.unpacked in names and os.path.exists(path)


def look(folder: Path, file: File) -> Path | None:
    """The path of the file in this folder, unpacked or not, or None."""
    present = os.path.isdir if file.name.endswith(".tar.gz") else os.path.isfile
    if present(folder / file.unpacked):
        return folder / file.unpacked
    return folder / file.name if os.path.isfile(folder / file.name) else None


def md5_of(stream: IO[bytes] | GzipFile) -> str:
    """The MD5 checksum of the rest of a stream. The datasets are published with MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk, while the file is read or written, into one line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "Make room there" if full else "Check the folder and its permissions"
        raise DataError(
            f"the disk refuses {path.name}: expected to read and write it, got {one_line(error)} ({path.parent}). "
            f"{what}, or give another --data-dir."
        ) from error


def one_line(error: BaseException) -> str:
    """The text of an exception on one line, or its type where it has no text."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split()) or type(error).__name__
