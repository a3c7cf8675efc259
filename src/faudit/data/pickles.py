"""The pickles of CIFAR, read without running a byte of them.

A pickle is a program for a machine that can call anything. Python's own machine cannot be tamed: with ``find_class``
closed, nine bytes still make it fill a memo of many gigabytes and a nested tuple as a key still overflows its stack. So
the few opcodes that the official files are written in, and no other, are read here by ``Reader``: it knows no callable,
it never recurses, and its memory is bounded by the length of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from faudit.errors import DataError

PIXELS = 3 * 32 * 32
MAX_STEPS = 2_000_000  # CIFAR-100's training file takes some 300,000


def damaged(what: str, *, expected: object, got: object, where: object) -> DataError:
    """The error of a file that is not what it should be."""
    return DataError(f"{what}: expected {expected}, got {got} ({where}). Get the official files again.")


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
