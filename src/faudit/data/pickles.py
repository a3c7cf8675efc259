"""Reads the pickle files of CIFAR without Python's unpickler.

A pickle is a program, and Python's unpickler runs it. An unpickler whose ``find_class`` refuses every name still falls
to small files. Each of these was measured on Python 3.10, 3.11 and 3.13, and ``test_cifar_pickles.py`` repeats them:

- 9 bytes (LONG_BINPUT with the memo index 2²⁸) make the C unpickler allocate 4 GB.
- A dictionary key that is a tuple, nested 300,000 deep, ends the process with a segmentation fault.
- 209 bytes (a key that holds the same pair twice, 40 levels deep) keep it busy for hours: hashing it takes 2⁴⁰ steps.

The last two also defeat the unpickler that is written in Python. They use only opcodes of the official files, and six
levels of wide tuples work like 40 levels of pairs, so a check of opcodes and nesting before unpickling would miss them.

``Reader`` reads the 31 opcodes of the official files and refuses every other one. It calls nothing that the file names,
it does not recurse, and it takes only text as a dictionary key. The length of the file and ``MAX_STEPS`` bound its
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from faudit.errors import DataError

PIXELS = 3 * 32 * 32
MAX_STEPS = 2_000_000  # CIFAR-100's training file takes about 300,000


def damaged(what: str, *, expected: object, got: object, where: object) -> DataError:
    """The error for a file that is not as it should be."""
    return DataError(f"{what}: expected {expected}, got {got} ({where}). Get the official files again.")


class Inert(Enum):
    """What a file may name. A member only stands for the name: it cannot be called."""

    RECONSTRUCT = auto()
    NDARRAY = auto()
    DTYPE = auto()
    ENCODE = auto()
    U1 = auto()


@dataclass
class Rows:
    """The array of a file. It has no pixels until the file sets its state."""

    pixels: NDArray[np.uint8] | None = None


GLOBALS = {
    ("numpy.core.multiarray", "_reconstruct"): Inert.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): Inert.RECONSTRUCT,
    ("numpy", "ndarray"): Inert.NDARRAY,
    ("numpy", "dtype"): Inert.DTYPE,
    ("_codecs", "encode"): Inert.ENCODE,  # Python 3 writes bytes this way in protocol 2
}
STOP = ord(".")


class Reader:
    """A stack machine for the part of pickle protocol 2 that the official files use."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.view = memoryview(data)  # its slices share the bytes, so that a large array is not copied
        self.where = where
        self.at = 0
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}
        self.encodable = len(data)

    def load(self) -> dict[str, object]:
        """The dictionary that the file holds. All keys are text."""
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
        """The error for the place in the file where reading stopped."""
        return damaged("cannot read this pickle", expected=expected, got=got, where=f"{self.where}, byte {self.at}")

    def push(self, value: object) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes of the file."""
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise self.refuse(f"{count} bytes", f"{len(self.data) - start}, the end of the file")
        return self.view[start : self.at]

    def number(self, size: int, *, signed: bool = False) -> int:
        """The next ``size`` bytes as a little-endian integer."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> str:
        """The text up to the end of the line."""
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
        """GLOBAL: push the member of ``Inert`` that stands for the name. Nothing is imported."""
        module, name = self.line(), self.line()
        if (module, name) not in GLOBALS:
            raise self.refuse("an array and plain values", f"the name {f'{module}.{name}'!r}")
        self.push(GLOBALS[module, name])

    def since_mark(self) -> list[object]:
        """Take everything above the last mark off the stack."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def last(self, count: int) -> list[object]:
        """Take the topmost ``count`` items off the stack."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def extend(self, items: list[object]) -> None:
        """APPEND, APPENDS."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise self.refuse("a list to append to", type(target).__name__)
        target.extend(items)

    def update(self, items: list[object]) -> None:
        """SETITEM, SETITEMS: only text can be a key, because hashing a hostile tuple crashes or never ends."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise self.refuse("a dictionary and pairs", f"{type(target).__name__} and {len(items)} items")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, bytes | str):
                raise self.refuse("text as a key", type(key).__name__)
            target[key if isinstance(key, str) else key.decode("latin1")] = value

    def call(self) -> None:
        """REDUCE: do what the three calls that build an array would do, without calling them."""
        function, arguments = self.last(2)
        match function, arguments:
            case Inert.RECONSTRUCT, (Inert.NDARRAY, (0,), b"b" | "b"):
                self.push(Rows())
            case Inert.DTYPE, (b"u1" | "u1", *_):
                self.push(Inert.U1)
            case Inert.ENCODE, (str(text), "latin1") if len(text) <= self.encodable:
                self.encodable -= len(text)  # otherwise one text, encoded again and again, could fill the memory
                self.push(text.encode("latin1"))
            case _:
                raise self.refuse("an array of u1", "another call")

    def build(self) -> None:
        """BUILD: give an array its bytes, if they are as many as its shape needs."""
        target, state = self.last(2)
        self.push(target)
        match target, state:
            case Inert.U1, _:
                pass  # byte order, fields and alignment do not matter for single bytes
            case Rows(), (1, (int(count), int(width)), Inert.U1, int(by_column), (bytes() | memoryview()) as raw):
                if width != PIXELS or count < 1 or count * width != len(raw):
                    raise self.refuse(f"{len(raw)} bytes as [{len(raw) // PIXELS}, {PIXELS}]", f"[{count}, {width}]")
                target.pixels = np.frombuffer(raw, np.uint8).reshape(count, width, order="F" if by_column else "C")
            case _:
                raise self.refuse(f"an array [N, {PIXELS}] of u1", "another state")


OPCODES: dict[int, Callable[[Reader], None]] = {
    0x80: Reader.protocol,
    ord("N"): lambda reader: reader.push(None),
    0x88: lambda reader: reader.push(True),
    0x89: lambda reader: reader.push(False),
    ord("K"): lambda reader: reader.push(reader.number(1)),
    ord("M"): lambda reader: reader.push(reader.number(2)),
    ord("J"): lambda reader: reader.push(reader.number(4, signed=True)),
    0x8A: lambda reader: reader.push(reader.number(reader.number(1), signed=True)),
    ord("U"): lambda reader: reader.push(bytes(reader.take(reader.number(1)))),
    ord("T"): lambda reader: reader.push(reader.take(reader.number(4))),
    ord("X"): lambda reader: reader.push(str(reader.take(reader.number(4)), "utf-8")),
    ord("]"): lambda reader: reader.push([]),
    ord("}"): lambda reader: reader.push({}),
    ord(")"): lambda reader: reader.push(()),
    ord("("): lambda reader: reader.marks.append(len(reader.stack)),
    ord("t"): lambda reader: reader.push(tuple(reader.since_mark())),
    0x85: lambda reader: reader.push(tuple(reader.last(1))),
    0x86: lambda reader: reader.push(tuple(reader.last(2))),
    0x87: lambda reader: reader.push(tuple(reader.last(3))),
    ord("a"): lambda reader: reader.extend(reader.last(1)),
    ord("e"): lambda reader: reader.extend(reader.since_mark()),
    ord("s"): lambda reader: reader.update(reader.last(2)),
    ord("u"): lambda reader: reader.update(reader.since_mark()),
    ord("q"): lambda reader: reader.memo.update({reader.number(1): reader.stack[-1]}),
    ord("r"): lambda reader: reader.memo.update({reader.number(4): reader.stack[-1]}),
    ord("h"): lambda reader: reader.push(reader.memo[reader.number(1)]),
    ord("j"): lambda reader: reader.push(reader.memo[reader.number(4)]),
    ord("c"): Reader.name,
    ord("R"): Reader.call,
    ord("b"): Reader.build,
}
