"""CIFAR-10 and CIFAR-100, from the official archive or from the unpacked folder.

A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

The files are pickles. ``pickles.py`` reads them without running anything.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.data.pickles import PIXELS, Reader, Rows, damaged
from faudit.data.sources import locate

MAX_FILE = 1 << 28
MAX_ARCHIVE = 3 << 27  # unpacked; the official archives hold 186 MB
MAX_MEMBERS = 1000


@dataclass(frozen=True)
class Layout:
    """The file names of one dataset, and how many images they hold."""

    name: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: str
    classes: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    train_rows: int = 50_000
    test_rows: int = 10_000


CIFAR10 = Layout(
    name="cifar10",
    folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{part}" for part in range(1, 6)),
    test=("test_batch",),
    labels="labels",
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Layout(
    name="cifar100",
    folder="cifar-100-python",
    train=("train",),
    test=("test",),
    labels="fine_labels",
    classes=100,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def cifar10(data_dir: Path | None = None) -> Dataset:
    """CIFAR-10: 60,000 photographs, 32×32 in colour, 10 classes."""
    return load(CIFAR10, data_dir)


def cifar100(data_dir: Path | None = None) -> Dataset:
    """CIFAR-100: 60,000 photographs, 32×32 in colour, 100 classes (the fine labels)."""
    return load(CIFAR100, data_dir)


def load(layout: Layout, data_dir: Path | None) -> Dataset:
    """Load a dataset from its archive or its folder."""
    place = locate(layout.name, data_dir)[0]
    read = read_archive(place, layout).pop if os.path.isfile(place) else partial(read_file, place)
    train = read_split(layout, read, place=place, names=layout.train, rows=layout.train_rows)
    test = read_split(layout, read, place=place, names=layout.test, rows=layout.test_rows)
    norm = layout.mean, layout.std
    return Dataset(layout.name, *train, *test, layout.classes, *norm, crop=4, flip=True)


def read_split(
    layout: Layout, read: Callable[[str], bytes], *, place: Path, names: tuple[str, ...], rows: int
) -> tuple[Tensor, Tensor]:
    """Read the files of one split, one at a time, into tensors that hold the whole split."""
    x = torch.empty(rows, PIXELS, dtype=torch.uint8)
    y = torch.empty(rows, dtype=torch.int64)
    filled = 0
    for name in names:
        pixels, labels = read_batch(read(name), str(place / name), layout=layout)
        upto = filled + len(pixels)
        if upto <= rows:
            x[filled:upto].numpy()[...] = pixels
            y[filled:upto] = torch.tensor(labels)
        filled = upto
        del pixels  # frees the memory of this file before the next one is read
    if filled != rows:
        raise damaged(f"wrong number of images in {', '.join(names)}", expected=rows, got=filled, where=place)
    return x.view(rows, 3, 32, 32), y


def read_batch(data: bytes, where: str, *, layout: Layout) -> tuple[NDArray[np.uint8], list[int]]:
    """Read the [N, 3072] pixels and the N labels of one file."""
    content = Reader(data, where).load()
    rows, labels = content.get("data"), content.get(layout.labels)
    if not isinstance(rows, Rows) or rows.pixels is None:
        raise damaged("no images", expected="an array as 'data'", got=type(rows).__name__, where=where)
    if not isinstance(labels, list) or len(labels) != len(rows.pixels):
        got = len(labels) if isinstance(labels, list) else type(labels).__name__
        raise damaged(
            "images and labels do not pair", expected=f"{len(rows.pixels)} {layout.labels}", got=got, where=where
        )
    for label in labels:
        if type(label) is not int or not 0 <= label < layout.classes:
            got = label if type(label) is int else type(label).__name__
            raise damaged("a label out of range", expected=f"0..{layout.classes - 1}", got=got, where=where)
    return rows.pixels, labels


def read_file(folder: Path, name: str) -> bytes:
    """Read one file of the unpacked folder."""
    path = folder / name
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise damaged(f"cannot read {name}", expected="a file", got="something else", where=path)
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            refuse_oversize(size, path)
            return stream.read(size)
    except OSError as error:
        raise damaged(f"cannot read {name}", expected="a file", got=error.strerror or error, where=path) from error


def refuse_oversize(size: int, where: object) -> None:
    """Refuse a file that is much larger than any file of these datasets, before it is read."""
    if size > MAX_FILE:
        raise damaged("file too large", expected=f"at most {MAX_FILE} bytes", got=size, where=where)


def read_archive(path: Path, layout: Layout) -> dict[str, bytes]:
    """Read the wanted files of a tar.gz into memory, by name. Nothing is written to disk."""
    found: dict[str, bytes] = {}
    try:
        with Bounded(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
                for count, member in enumerate(archive):
                    name = wanted_name(member, layout, where=path)
                    if count >= MAX_MEMBERS or name in found:
                        each = f"each file once and at most {MAX_MEMBERS} members"
                        raise damaged("too many members", expected=each, got=repr(member.name), where=path)
                    if name is not None and (content := archive.extractfile(member)) is not None:
                        found[name] = content.read()
            while stream.read(1 << 20):  # gzip compares its checksum only at the end
                pass
    # tarfile and gzip raise all of these for damaged archives
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, RecursionError) as error:
        raise damaged("damaged archive", expected="a whole tar.gz", got=error, where=path) from error
    missing = [name for name in layout.train + layout.test if name not in found]
    if missing:
        raise damaged(f"no {', '.join(missing)}", expected=f"all in {layout.folder}/", got=sorted(found), where=path)
    return found


def wanted_name(member: tarfile.TarInfo, layout: Layout, *, where: Path) -> str | None:
    """The name of the wanted file that a member is, or None. A member that imitates a wanted file is refused."""
    path = PurePosixPath(member.name)  # drops a leading ./
    if path.name not in layout.train + layout.test:
        return None
    inside = f"{layout.folder}/{path.name}"
    if path.is_absolute() or ".." in path.parts:
        raise damaged("member outside the archive", expected=inside, got=repr(member.name), where=where)
    if str(path) != inside:
        return None
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise damaged(f"{inside} is not a file", expected="a plain file", got="a link or device", where=where)
    refuse_oversize(member.size, f"{inside} in {where}")
    return path.name


class Bounded(gzip.GzipFile):
    """A gzip file that raises an error after ``MAX_ARCHIVE`` bytes: gzip can expand a small file a thousand times."""

    ends = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read at most ``size`` bytes."""
        data = super().read(size)
        if self.tell() > MAX_ARCHIVE:
            raise damaged("archive too large", expected=f"at most {MAX_ARCHIVE} bytes", got="more", where=self.name)
        self.ends += not data
        if self.ends > 10:  # tarfile skips a member of 2⁶³ bytes by as many empty reads
            raise EOFError("a member longer than the archive")
        return data
