"""Read an untrusted JSON file within limits, and check each part of it. Errors name the place in the file."""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.errors import DataError

LIMIT = 16 * 2**20  # bytes; a paper's files have about a hundred thousand
LEVELS = 32  # of nesting; a paper's files have four
MANY = 1_000_000  # the most entries, epochs or samples that a file may have
ADVICE = "Repair that file, or leave it out."


@dataclass(frozen=True)
class Field:
    """A part of a document, and its place there for error messages."""

    value: Any
    place: str

    def wrong(self, wanted: str) -> DataError:
        return DataError(f"{self.place}: expected {wanted}, got {reprlib.repr(self.value)}. {ADVICE}")

    def at(self, name: str, default: Any = ...) -> Field:
        """The member of an object with this name. Raises if it is missing and there is no default."""
        if not isinstance(self.value, dict) or (default is ... and name not in self.value):
            raise self.wrong(f"an object with {name!r}")
        return Field(self.value.get(name, default), f"{self.place}, {name}")

    def parts(self) -> list[Field]:
        """The entries of a list."""
        if not isinstance(self.value, list) or not 1 <= len(self.value) <= MANY:
            raise self.wrong(f"a list of 1 to {MANY}")
        return [Field(value, f"{self.place}[{i}]") for i, value in enumerate(self.value)]

    def number(self, *, low: float = 0.0, high: float = math.inf) -> float:
        """A number in a range. null stands for a number that overflowed and becomes NaN."""
        is_number = isinstance(self.value, float) or (type(self.value) is int and abs(self.value) < 2**63)
        if self.value is not None and (not is_number or self.value < low or self.value > high):
            raise self.wrong(f"a number from {low:g} to {high:g}")
        return math.nan if self.value is None else float(self.value)

    def whole(self, *, low: int = 0) -> int:
        """A whole number from ``low`` to ``MANY``."""
        if type(self.value) is not int or not low <= self.value <= MANY:
            raise self.wrong(f"a whole number from {low} to {MANY}")
        return self.value


def read_document(path: Path) -> tuple[bytes, Field]:
    """The bytes of a file and its JSON document. Raises before reading if the file is missing or too large."""
    try:
        if not path.is_file():
            raise DataError(f"cannot import {path}: expected a file, got none. Name the paper's .json files.")
        if (size := path.stat().st_size) > LIMIT:
            raise Field(size, str(path)).wrong(f"at most {LIMIT} bytes (16 MB)")
        data = path.read_bytes()
        return data, Field(json.loads(data.decode("utf-8")), str(path))
    except OSError as error:
        raise DataError(f"cannot import {path}: {error.strerror}. Give yourself permission, or leave it out.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}. {ADVICE}") from None


def strict(value: Any, level: int = 0, *, where: str) -> Any:
    """A document as strict JSON. A number that overflowed becomes null."""
    if level > LEVELS:
        raise Field(level, where).wrong(f"at most {LEVELS} levels of nesting")
    if isinstance(value, dict):
        return {name: strict(inner, level + 1, where=where) for name, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner, level + 1, where=where) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
