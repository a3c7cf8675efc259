"""Somebody else's JSON file: read within limits, and checked part by part with its place."""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.errors import DataError

LIMIT = 16 * 2**20  # bytes of a file; those of papers have about a hundred thousand
LEVELS = 32  # of nesting; those of papers have four
MANY = 1_000_000  # entries, epochs, samples: what no file has more of
ADVICE = "Repair that file, or leave it out."


@dataclass(frozen=True)
class Field:
    """A part of a document and its place there, so that whatever is wrong with it is said with where it is."""

    value: Any
    place: str

    def wrong(self, wanted: str) -> DataError:
        return DataError(f"{self.place}: expected {wanted}, got {reprlib.repr(self.value)}. {ADVICE}")

    def at(self, name: str, default: Any = ...) -> Field:
        """What an object has under a name; without a default, it must have it."""
        if not isinstance(self.value, dict) or (default is ... and name not in self.value):
            raise self.wrong(f"an object with {name!r}")
        return Field(self.value.get(name, default), f"{self.place}, {name}")

    def parts(self) -> list[Field]:
        """The entries of a list."""
        if not isinstance(self.value, list) or not 1 <= len(self.value) <= MANY:
            raise self.wrong(f"a list of 1 to {MANY}")
        return [Field(value, f"{self.place}[{i}]") for i, value in enumerate(self.value)]

    def number(self, *, low: float = 0.0, high: float = math.inf) -> float:
        """A number in a range; null is one that overflowed."""
        is_number = isinstance(self.value, float) or (type(self.value) is int and abs(self.value) < 2**63)
        if self.value is not None and (not is_number or self.value < low or self.value > high):
            raise self.wrong(f"a number from {low:g} to {high:g}")
        return math.nan if self.value is None else float(self.value)

    def whole(self, *, low: int = 0) -> int:
        """A whole number that is not absurd."""
        if type(self.value) is not int or not low <= self.value <= MANY:
            raise self.wrong(f"a whole number from {low} to {MANY}")
        return self.value


def read_document(path: Path) -> tuple[bytes, Field]:
    """A file's bytes and its document; what cannot be a paper's is refused before it is read."""
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
    """A document as strict JSON holds it: a number that overflowed becomes null."""
    if level > LEVELS:
        raise Field(level, where).wrong(f"at most {LEVELS} levels of nesting")
    if isinstance(value, dict):
        return {name: strict(inner, level + 1, where=where) for name, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner, level + 1, where=where) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
