"""CIFAR-10 and CIFAR-100, from the official archive or the folder unpacked from it, without running a byte of them.

A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

The files are pickles, programs for a machine that can call anything. Python's own machine cannot be tamed: with
``find_class`` closed, nine bytes still make it fill a memo of many gigabytes and a nested tuple as a key still
overflows its stack. So these few opcodes, all that the files are written in, are read here by ``Reader``: it knows no
callable, it never recurses, and its memory is bounded by the length of the file.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.data.fetch import locate
from faudit.errors import DataError

PIXELS = 3 * 32 * 32
MAX_FILE = 1 << 28
MAX_ARCHIVE = 3 << 27  # unpacked; the official ones hold 186 MB
MAX_MEMBERS = 1000
MAX_STEPS = 2_000_000  # CIFAR-100's training file takes some 300,000


@dataclass(frozen=True)
class Layout:
    """What the files of one dataset are called and how much they hold."""

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
    """A dataset of this layout from its archive or its folder."""
    place = locate(layout.name, data_dir)[0]
    read = read_archive(place, layout).pop if os.path.isfile(place) else partial(read_file, place)
    train = read_split(layout, read, place=place, names=layout.train, rows=layout.train_rows)
    test = read_split(layout, read, place=place, names=layout.test, rows=layout.test_rows)
    norm = layout.mean, layout.std
    return Dataset(layout.name, *train, *test, layout.classes, *norm, crop=4, flip=True)


def damaged(what: str, *, expected: object, got: object, where: object) -> DataError:
    """The error of a file that is not what it should be."""
    return DataError(f"{what}: expected {expected}, got {got} ({where}). Get the official files again.")


def read_split(
    layout: Layout, read: Callable[[str], bytes], *, place: Path, names: tuple[str, ...], rows: int
) -> tuple[Tensor, Tensor]:
    """The files of one split one after the other, each copied once into tensors that hold them all."""
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
        del pixels  # frees the file before the next is read: less memory, and its pages are used again
    if filled != rows:
        raise damaged(f"another number of images in {', '.join(names)}", expected=rows, got=filled, where=place)
    return x.view(rows, 3, 32, 32), y


def read_batch(data: bytes, where: str, *, layout: Layout) -> tuple[NDArray[np.uint8], list[int]]:
    """The [N, 3072] pixels and the N labels of one file."""
    content = Reader(data, where).load()
    rows, labels = content.get("data"), content.get(layout.labels)
    if not isinstance(rows, Rows) or rows.pixels is None:
        raise damaged("no images", expected="an array as 'data'", got=type(rows).__name__, where=where)
    if not isinstance(labels, list) or len(labels) != len(rows.pixels):
        got = len(labels) if isinstance(labels, list) else type(labels).__name__
        raise damaged("labels that do not pair", expected=f"{len(rows.pixels)} {layout.labels}", got=got, where=where)
    for label in labels:
        if type(label) is not int or not 0 <= label < layout.classes:
            got = label if type(label) is int else type(label).__name__
            raise damaged("a label out of range", expected=f"0..{layout.classes - 1}", got=got, where=where)
    return rows.pixels, labels


def read_file(folder: Path, name: str) -> bytes:
    """One file of the unpacked folder."""
    path = folder / name
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            refuse_oversize(size, path)
            return stream.read(size)
    except OSError as error:
        raise damaged(f"cannot read {name}", expected="a file", got=error.strerror or error, where=path) from error


def refuse_oversize(size: int, where: object) -> None:
    """No file of these datasets is larger; what is, is not read into memory."""
    if size > MAX_FILE:
        raise damaged("a file too large", expected=f"at most {MAX_FILE} bytes", got=size, where=where)


def read_archive(path: Path, layout: Layout) -> dict[str, bytes]:
    """The wanted files of a tar.gz by name, all in memory: nothing is ever written to disk."""
    found: dict[str, bytes] = {}
    try:
        with Bounded(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
                for count, member in enumerate(archive):
                    name = wanted_name(member, layout, where=path)
                    if count >= MAX_MEMBERS or name in found:
                        each = f"each file once and at most {MAX_MEMBERS} members"
                        raise damaged("a member too many", expected=each, got=repr(member.name), where=path)
                    if name is not None and (content := archive.extractfile(member)) is not None:
                        found[name] = content.read()
            while stream.read(1 << 20):  # gzip compares its checksum at the end
                pass
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, RecursionError) as error:  # each is raised
        raise damaged("a damaged archive", expected="a whole tar.gz", got=error, where=path) from error
    missing = [name for name in layout.train + layout.test if name not in found]
    if missing:
        raise damaged(f"no {', '.join(missing)}", expected=f"all in {layout.folder}/", got=sorted(found), where=path)
    return found


def wanted_name(member: tarfile.TarInfo, layout: Layout, *, where: Path) -> str | None:
    """Which wanted file a member is, if any; what only pretends to be one is refused."""
    path = PurePosixPath(member.name)  # drops a leading ./
    if path.name not in layout.train + layout.test:
        return None
    inside = f"{layout.folder}/{path.name}"
    if path.is_absolute() or ".." in path.parts:
        raise damaged("a member outside the archive", expected=inside, got=repr(member.name), where=where)
    if str(path) != inside:
        return None
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise damaged(f"{inside} is not a file", expected="a plain file", got="a link or device", where=where)
    refuse_oversize(member.size, f"{inside} in {where}")
    return path.name


class Bounded(gzip.GzipFile):
    """A gzip that ends in an error past ``MAX_ARCHIVE`` bytes: a small one can hold a thousand times its size."""

    ends = 0

    def read(self, size: int | None = -1) -> bytes:
        """At most ``size`` further bytes."""
        data = super().read(size)
        if self.tell() > MAX_ARCHIVE:
            raise damaged("an archive too large", expected=f"at most {MAX_ARCHIVE} bytes", got="more", where=self.name)
        self.ends += not data
        if self.ends > 10:  # tarfile would skip a member of 2⁶³ bytes by as many reads of nothing
            raise EOFError("a member longer than the archive")
        return data


class Inert(Enum):
    """What the files may name, as a mere mark: nothing is behind it."""

    RECONSTRUCT = auto()
    NDARRAY = auto()
    DTYPE = auto()
    ENCODE = auto()
    U1 = auto()


@dataclass
class Rows:
    """The array of a file: empty when the file makes it, filled when the file sets its state."""

    pixels: NDArray[np.uint8] | None = None


GLOBALS = {
    ("numpy.core.multiarray", "_reconstruct"): Inert.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): Inert.RECONSTRUCT,
    ("numpy", "ndarray"): Inert.NDARRAY,
    ("numpy", "dtype"): Inert.DTYPE,
    ("_codecs", "encode"): Inert.ENCODE,  # how Python 3 writes bytes in protocol 2
}
STOP = ord(".")


class Reader:
    """The machine of pickle's protocol 2, as far as an official file uses it."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.view = memoryview(data)  # slices of it copy nothing: an array's bytes stay where they are
        self.where = where
        self.at = 0
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}
        self.encodable = len(data)

    def load(self) -> dict[object, object]:
        """The dictionary that the file describes, its keys as text."""
        try:
            for _ in range(MAX_STEPS):
                code = self.number(1)
                if code == STOP:
                    break
                if code not in OPCODES:
                    raise self.refuse("an opcode of the official files", f"{code:#04x}")
                OPCODES[code](self)
            else:
                raise self.refuse(f"at most {MAX_STEPS} steps", "more")
            result = self.stack.pop()
        except (IndexError, KeyError, UnicodeError, MemoryError) as error:  # stack, memo, text, size
            raise self.refuse("a whole file", f"a damaged one ({type(error).__name__})") from error
        if not isinstance(result, dict):
            raise self.refuse("a dictionary", type(result).__name__)
        return result

    def refuse(self, expected: str, got: str) -> DataError:
        """The error that says where in the file the machine stopped."""
        return damaged("a pickle not to be read", expected=expected, got=got, where=f"{self.where}, byte {self.at}")

    def take(self, count: int) -> memoryview:
        """The next bytes of the file."""
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise self.refuse(f"{count} bytes", f"{len(self.data) - start}, the end of the file")
        return self.view[start : self.at]

    def number(self, size: int, *, signed: bool = False) -> int:
        """A little-endian whole number."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> str:
        """Text up to the end of the line."""
        end = self.data.find(b"\n", self.at, self.at + 100)
        if end < 0:
            raise self.refuse("a short name", "none")
        text = str(self.take(end - self.at), "ascii")
        self.at += 1
        return text

    def protocol(self) -> None:
        """PROTO."""
        if (version := self.number(1)) != 2:
            raise self.refuse("pickle protocol 2, as in the official files", str(version))

    def name(self) -> None:
        """GLOBAL: a mark for one of five names, never the thing."""
        module, name = self.line(), self.line()
        if (module, name) not in GLOBALS:
            raise self.refuse("an array and plain values", f"the name {f'{module}.{name}'!r}")
        self.stack.append(GLOBALS[module, name])

    def since_mark(self) -> list[object]:
        """What was pushed since the last mark, taken off the stack."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def last(self, count: int) -> list[object]:
        """The topmost items, taken off the stack."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def extend(self, items: list[object]) -> None:
        """APPEND, APPENDS."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise self.refuse("a list to append to", type(target).__name__)
        target.extend(items)

    def update(self, items: list[object]) -> None:
        """SETITEM, SETITEMS; text alone may be a key: hashing a deeply nested tuple would overflow the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise self.refuse("a dictionary and pairs", f"{type(target).__name__} and {len(items)} items")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, bytes | str):
                raise self.refuse("text as a key", type(key).__name__)
            target[key if isinstance(key, str) else key.decode("latin1")] = value

    def call(self) -> None:
        """REDUCE: the three calls an array is written with, done by ourselves."""
        function, arguments = self.last(2)
        match function, arguments:
            case Inert.RECONSTRUCT, (Inert.NDARRAY, (0,), b"b" | "b"):
                self.stack.append(Rows())
            case Inert.DTYPE, (b"u1" | "u1", *_):
                self.stack.append(Inert.U1)
            case Inert.ENCODE, (str(text), "latin1") if len(text) <= self.encodable:
                self.encodable -= len(text)  # else one text, named again and again, would fill the memory
                self.stack.append(text.encode("latin1"))
            case _:
                raise self.refuse("an array of u1", "another call")

    def build(self) -> None:
        """BUILD: the bytes of an array, believed only if the shape it states is theirs."""
        target, state = self.last(2)
        self.stack.append(target)
        match target, state:
            case Inert.U1, _:
                pass  # byte order, fields and alignment say nothing of single bytes
            case Rows(), (1, (int(count), int(width)), Inert.U1, int(by_column), (bytes() | memoryview()) as raw):
                if width != PIXELS or count < 1 or count * width != len(raw):
                    raise self.refuse(f"{len(raw)} bytes as [{len(raw) // PIXELS}, {PIXELS}]", f"[{count}, {width}]")
                target.pixels = np.frombuffer(raw, np.uint8).reshape(count, width, order="F" if by_column else "C")
            case _:
                raise self.refuse(f"an array [N, {PIXELS}] of u1", "another state")


OPCODES: dict[int, Callable[[Reader], None]] = {
    0x80: Reader.protocol,
    ord("N"): lambda reader: reader.stack.append(None),
    0x88: lambda reader: reader.stack.append(True),
    0x89: lambda reader: reader.stack.append(False),
    ord("K"): lambda reader: reader.stack.append(reader.number(1)),
    ord("M"): lambda reader: reader.stack.append(reader.number(2)),
    ord("J"): lambda reader: reader.stack.append(reader.number(4, signed=True)),
    0x8A: lambda reader: reader.stack.append(reader.number(reader.number(1), signed=True)),
    ord("U"): lambda reader: reader.stack.append(bytes(reader.take(reader.number(1)))),
    ord("T"): lambda reader: reader.stack.append(reader.take(reader.number(4))),
    ord("X"): lambda reader: reader.stack.append(str(reader.take(reader.number(4)), "utf-8")),
    ord("]"): lambda reader: reader.stack.append([]),
    ord("}"): lambda reader: reader.stack.append({}),
    ord(")"): lambda reader: reader.stack.append(()),
    ord("("): lambda reader: reader.marks.append(len(reader.stack)),
    ord("t"): lambda reader: reader.stack.append(tuple(reader.since_mark())),
    0x85: lambda reader: reader.stack.append(tuple(reader.last(1))),
    0x86: lambda reader: reader.stack.append(tuple(reader.last(2))),
    0x87: lambda reader: reader.stack.append(tuple(reader.last(3))),
    ord("a"): lambda reader: reader.extend(reader.last(1)),
    ord("e"): lambda reader: reader.extend(reader.since_mark()),
    ord("s"): lambda reader: reader.update(reader.last(2)),
    ord("u"): lambda reader: reader.update(reader.since_mark()),
    ord("q"): lambda reader: reader.memo.update({reader.number(1): reader.stack[-1]}),
    ord("r"): lambda reader: reader.memo.update({reader.number(4): reader.stack[-1]}),
    ord("h"): lambda reader: reader.stack.append(reader.memo[reader.number(1)]),
    ord("j"): lambda reader: reader.stack.append(reader.memo[reader.number(4)]),
    ord("c"): Reader.name,
    ord("R"): Reader.call,
    ord("b"): Reader.build,
}
