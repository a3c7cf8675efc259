"""Rows of ``rows.jsonl``: their declared entries, their type, and the reader that checks them.

Rows are strict JSON. ``null`` is a number that is undefined or was not measured. ``"inf"``, ``"-inf"`` and ``"nan"``
are numbers that overflowed. A missing entry was not measured.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby, pairwise
from typing import Any

import orjson

from faudit.config import quoted
from faudit.errors import DamagedError
from faudit.probes import NESTED, PROBES, Entry, Kind
from faudit.registry import nearest

LOOP = (  # entries that the training loop writes
    Entry("epoch", "scalar", "Epochs trained; 0 is before training.", kind="count", required=True, finite=True),
    Entry(
        "test_acc",
        "scalar",
        "Accuracy on the full test set, every 10 epochs and at the end; null otherwise.",
        unit="accuracy",
        required=True,
    ),
    Entry(
        "test_nse",
        "scalar",
        "Squared error on the full test set relative to the best constant, when test_acc is due; only of vectors.",
        unit="share",
    ),
    Entry("eval_samples", "scalar", "Number of samples in the evaluation buffer.", kind="count", unit="samples"),
    Entry("test_samples", "scalar", "Number of samples in the test set.", kind="count", unit="samples"),
    Entry("classes", "scalar", "Number of classes of the dataset; 0 if its targets are vectors.", kind="count"),
    Entry(
        "train_loss",
        "scalar",
        "Mean loss over the epoch, each batch at the weights of its step; null at epoch 0.",
        unit="nats",
        required=True,
    ),
    Entry("seconds", "scalar", "Training time since the previous row.", unit="s", required=True, finite=True),
    Entry("probe_seconds", "scalar", "Time to compute this row.", unit="s", required=True, finite=True),
)
WATCHED = (  # entries that only a watched loop writes, from the last ``w.compare`` before the row
    Entry("compare_cosine", "scalar", "Cosine between the loop's update and autograd's gradient.", unit="cosine"),
    Entry("compare_ratio", "scalar", "Norm of the loop's update divided by that of the gradient.", unit="ratio"),
    Entry("compare_sign", "scalar", "Share of the entries of the two whose signs agree.", unit="share"),
    Entry("compare_chance", "scalar", "1.96/√n, half the width of the 95 % interval of the cosine by chance; n counts "
          "the parameters.", unit="cosine"),
    Entry("compare_cosines", "parts", "The same cosine for each part: what runs before the blocks, blocks, what runs "
          "after; null if a part gets no update.", unit="cosine"),
    Entry("compare_ratios", "parts", "The same ratio for each part.", unit="ratio"),
    Entry("compare_signs", "parts", "The same share for each part.", unit="share"),
)  # fmt: skip
FOREIGN = (  # entries that only the audit of a foreign model writes
    Entry("null_of", "scalar", "How the null of Γ was drawn; null if no credit was given.", kind="text"),
    Entry("dtype", "scalar", "Floating-point type of the model's output.", kind="text"),
)
TIMINGS = ("seconds", "probe_seconds")  # the only entries that differ between two identical runs
OVERFLOWED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
OWN = "own."  # begins the name of a number that the user of a watched loop logged
AGAIN = "Put the right file back, or train the run from the start with `faudit train --again` and its settings."
EXACT = 2**53  # a float holds every whole number up to here
TIME = f"a number from 0 to {EXACT}"
WORDS: dict[Kind, str] = {"number": "number", "count": "whole number", "flag": "truth value"}
NONE = type(None)
ALLOWED: dict[tuple[Kind, bool], set[type]] = {  # JSON types, by kind and whether the value must be finite
    ("number", False): {float, int, NONE, str},  # str: a number that overflowed
    ("number", True): {float, int},
    ("count", False): {int, NONE},
    ("count", True): {int},
    ("flag", False): {bool, NONE},
}


class Entries(Mapping[str, Entry]):
    """Every entry that a row may hold, by name; the declarations of the probes are read on first use."""

    @cached_property
    def logged(self) -> dict[str, Entry]:
        """The entries that a row of a run may hold."""
        return {**{entry.name: entry for entry in LOOP}, **PROBES.entries, **{entry.name: entry for entry in WATCHED}}

    def in_row(self, name: str) -> Entry | None:
        """The entry of a name that a row of a run may hold: a declared one, or a number of the user's own."""
        own = name.startswith(OWN) and len(name) > len(OWN)
        return Entry(name, "scalar", "A number that the user logged.") if own else self.logged.get(name)

    @cached_property
    def required(self) -> frozenset[str]:
        """The entries that every row of a run holds."""
        return frozenset(name for name, entry in self.logged.items() if entry.required)

    @cached_property
    def _all(self) -> dict[str, Entry]:
        return {**self.logged, **{entry.name: entry for entry in FOREIGN}}

    def __getitem__(self, name: str) -> Entry:
        return self.in_row(name) or self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


ENTRIES = Entries()


class Row(dict[str, Any]):
    """One row; reading an entry that is not declared raises KeyError."""

    __slots__ = ()

    def number(self, name: str) -> float | None:
        """A scalar entry; None if it is undefined or was not measured."""
        value: float | None = self.get(ENTRIES[name].name)
        return value

    def numbers(self, name: str) -> list[float | None]:
        """An entry with a number for each tap, block or part; empty if it was not measured."""
        values: list[float | None] = self.get(ENTRIES[name].name, [])
        return values


class Damage(Exception):
    """A damaged row; raised by code that does not know the file and line."""


def to_line(row: Mapping[str, Any]) -> str:
    """A row as one line of strict JSON."""
    return json.dumps({name: encoded(value) for name, value in row.items()}, allow_nan=False) + "\n"


def from_lines(lines: Sequence[bytes], *, where: str, first: int = 1) -> list[Row]:
    """Parse and check lines of the file ``where``; the first line has the number ``first``.

    The error for a damaged line names its number and the wrong entry.
    """
    try:
        return checked([orjson.loads(line) for line in lines])
    except (orjson.JSONDecodeError, Damage):
        pass  # parse line by line below, to name the damaged one
    rows: list[Any] = []
    for number, line in enumerate(lines, start=first):
        try:
            rows.append(json.loads(line.decode("utf-8"), parse_float=_strict, parse_constant=_strict))
        except (ValueError, RecursionError) as error:
            raise _damaged(where, number, f"expected a row of JSON, got {error}") from None
        try:
            checked(rows[-2:])
        except Damage as damage:
            raise _damaged(where, number, str(damage)) from None
    return checked(rows)


def checked(rows: Sequence[Any]) -> list[Row]:
    """Check rows: known entries, declared shapes, one number of blocks, increasing epochs.

    It checks one entry of many rows at a time, which is several times faster than one row at a time.
    """
    for row in rows:
        if type(row) is not dict:
            raise Damage(f"expected a JSON object, got {quoted(row)}")
    alike = [(_declared(names), list(group)) for names, group in groupby(rows, key=tuple)]  # with the same entries
    taps = rows[0]["hidden_norms"] if rows else None
    blocks = len(taps) - 1 if isinstance(taps, list) else 0
    for entries, group in alike:
        for entry, column in zip(entries, zip(*map(dict.values, group), strict=True), strict=True):
            if _overflowed(entry, column, blocks=blocks):
                for row in group:
                    row[entry.name] = decoded(row[entry.name])
    epochs = [row["epoch"] for row in rows]
    if any(map(operator.ge, epochs, epochs[1:])):
        raise Damage(f"epoch: expected more than in the row before, got {epochs[-1]}")
    return list(map(Row, rows))


@lru_cache(maxsize=64)  # most rows of all runs have the same entries
def _declared(names: tuple[str, ...]) -> tuple[Entry, ...]:
    """The entries of these names; raises Damage if one is not declared or a required one is missing."""
    for name in names:
        if ENTRIES.in_row(name) is None:
            near = nearest(name, ENTRIES.logged) or "."
            raise Damage(f"unknown entry {quoted(name)}{near} A newer faudit may have written it: then upgrade")
    for name in sorted(ENTRIES.required.difference(names)):
        raise Damage(f"{name}: expected in every row, got none")
    return tuple(ENTRIES[name] for name in names)


def _overflowed(entry: Entry, column: Sequence[Any], *, blocks: int) -> bool:
    """Whether an entry overflowed in some row; raises Damage for a value of the wrong shape or kind."""
    values = column if entry.shape == "scalar" else _flat(entry, column, blocks=blocks)
    types = set(map(type, values or ()))
    if values is None or not types <= ALLOWED[entry.kind, entry.finite] or not _are_in_range(entry, values, types):
        # The last row is the wrong one: the caller has already checked the rows before it.
        raise Damage(f"{entry.name}: expected {_expected(entry, blocks)}, got {quoted(column[-1])}")
    return str in types


def _flat(entry: Entry, column: Sequence[Any], *, blocks: int) -> Sequence[Any] | None:
    """The values of an entry in all rows, flattened; None if the lists do not have the declared shape."""
    if not _are_lists(column) or not all(entry.fits(length, blocks) for length in set(map(len, column))):
        return None
    if entry.shape not in NESTED:
        return list(chain.from_iterable(column))
    inner = [[value for value in places if value is not None] for places in column]
    if not all(_are_lists(lists) and len(set(map(len, lists))) <= 1 for lists in inner):
        return None
    return list(chain.from_iterable(chain.from_iterable(inner)))


def _are_lists(values: Sequence[Any]) -> bool:
    return {list}.issuperset(map(type, values))


def _are_in_range(entry: Entry, values: Sequence[Any], types: set[type]) -> bool:
    """Whether a float can hold every whole number, no count or time is negative, and any text is of an overflow."""
    if entry.name in TIMINGS:
        return all(map(is_time, values))
    if int in types:
        whole = values if len(types) == 1 else [value for value in values if type(value) is int]
        if max(whole) > EXACT or min(whole) < (-EXACT if entry.kind == "number" else 0):
            return False
    return str not in types or OVERFLOWED.keys() >= {value for value in values if type(value) is str}


def is_time(value: Any) -> bool:
    """Whether a value is a time in seconds; the limit keeps the sum of many times finite."""
    return type(value) in ALLOWED["number", True] and 0 <= value <= EXACT


def _expected(entry: Entry, blocks: int) -> str:
    """The expected value of an entry, in words."""
    if entry.name in TIMINGS:
        return TIME
    what = WORDS[entry.kind]
    if entry.shape == "scalar":
        return f"a {what}" if entry.finite else f"a {what} or null"
    many = " or ".join(map(str, sorted(entry.lengths(blocks))))
    return " ".join(filter(None, ["a list of", many, "lists of" if entry.shape in NESTED else "", f"{what}s"]))


def _damaged(where: str, line: int, what: str) -> DamagedError:
    return DamagedError(f"{where}, line {line} is damaged: {what}. {AGAIN}")


def _strict(text: str) -> float:
    """A number of strict JSON; ValueError if it is not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text}")
    return value


def growth(hidden_norms: Sequence[float | None]) -> float | None:
    """max_l ‖h_{l+1}‖ / ‖h_l‖, the largest growth of one block.

    Infinite if a norm overflowed or grew from zero. None if it is undefined: a tap was not logged, there is only one
    tap, or all norms are zero.
    """
    known = [norm for norm in hidden_norms if norm is not None]
    if not math.isfinite(sum(known)) and any(not math.isfinite(norm) for norm in known):
        return math.inf
    if len(known) < len(hidden_norms):
        return None
    steps = [after / before if before else math.inf for before, after in pairwise(known) if before or after]
    return max(steps, default=None)


def finite(value: Any) -> Any:
    """A non-finite number as text, which strict JSON can hold; any other value unchanged."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def overflow(row: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """The first entry of a row that overflowed and, for a per-tap entry, its first tap; None if no entry did."""
    for name, value in row.items():
        for place, number in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(number, float) and not math.isfinite(number):
                return name, place if isinstance(value, list) else None
    return None


def encoded(value: Any) -> Any:
    """Encode a value for strict JSON."""
    return [encoded(entry) for entry in value] if isinstance(value, list) else finite(value)


def decoded(value: Any) -> Any:
    """Decode a value from JSON."""
    if isinstance(value, list):
        return [decoded(entry) for entry in value]
    return OVERFLOWED[value] if isinstance(value, str) and value in OVERFLOWED else value
