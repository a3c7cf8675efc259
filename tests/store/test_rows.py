"""Rows are strict JSON and hold what is declared: whatever else a file holds is refused by line and entry."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faudit.config import RunConfig, all_keys
from faudit.errors import StoreError
from faudit.probes import NESTED, SHAPES
from faudit.store.rows import (
    AGAIN,
    ENTRIES,
    EXACT,
    FOREIGN,
    OVERFLOWED,
    TIMINGS,
    Damage,
    Row,
    checked,
    from_lines,
    growth,
    overflow,
    to_line,
)
from tests.support import fabricate

PROBED = RunConfig(rule="dfa", epochs=3, probe_epochs=(1,))


def sound_rows() -> list[dict[str, Any]]:
    """Four rows as JSON gives them, two of them with costly entries of every shape."""
    rows: list[dict[str, Any]] = [dict(fabricate.row(PROBED, epoch, random.Random(epoch))) for epoch in range(4)]
    for row in (rows[1], rows[3]):
        row["rho_valid"] = [True, False, True, True]
        row["gamma_quantiles"] = [[-0.1, 0.0, 0.1, 0.2, 0.3], None, [0.0] * 5, [0.0] * 5]
        row["gamma_null_draws"] = [[0.1] * 20] * fabricate.L
        row["update_cosines"] = [1.0] * (fabricate.L + 2)
        row["weight_cosine"] = [None] * fabricate.L
        row["stability"], row["stability_samples"] = None, 45
    return rows


def read(rows: Sequence[Any]) -> list[Row]:
    return from_lines([json.dumps(row).encode() for row in rows], where="rows.jsonl")


def test_a_row_survives_the_round_trip_as_strict_json() -> None:
    row = fabricate.row(PROBED, 3, random.Random(0))
    row["hidden_norms"][1:4] = [math.inf, -math.inf, math.nan]
    row["gamma"][0], row["loss_eval"] = None, math.inf
    line = to_line(row)
    assert json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    (back,) = from_lines([line.encode()], where="rows.jsonl")
    assert type(back) is Row and repr(back) == repr(Row(row)) and list(back) == list(row)


def test_undefined_and_overflowed_look_different_on_disk() -> None:
    assert '"a": null' in to_line({"epoch": 0, "a": None})
    assert '"a": "inf"' in to_line({"epoch": 0, "a": math.inf})
    assert '"a": "nan"' in to_line({"epoch": 0, "a": math.nan})


def test_sound_rows_are_read_as_they_are() -> None:
    rows = sound_rows()
    assert read(rows) == rows and read([]) == []


@pytest.mark.parametrize(
    ("entry", "value", "told"),
    [
        ("acc_eval", "high", "acc_eval: expected a number or null, got 'high'"),
        ("acc_eval", [0.5], "acc_eval: expected a number or null, got [0.5]"),
        ("acc_eval", True, "acc_eval: expected a number or null, got True"),
        ("acc_eval", {"a": 1}, "acc_eval: expected a number or null, got {'a': 1}"),
        ("loss_eval", 2**53 + 1, "loss_eval: expected a number or null, got 9007199254740993"),
        pytest.param("loss_eval", 10**400, "loss_eval: expected a number or null, got 1000", id="loss_eval-10^400"),
        pytest.param("epoch", 10**400, "epoch: expected a whole number, got 1000", id="epoch-10^400"),
        ("epoch", None, "epoch: expected a whole number, got None"),
        ("epoch", 2.0, "epoch: expected a whole number, got 2.0"),
        ("epoch", -1, "epoch: expected a whole number, got -1"),
        ("epoch", 1, "epoch: expected more than in the row before, got 1"),
        *((name, None, f"{name}: expected a number from 0 to {2**53}, got None") for name in TIMINGS),
        *((name, -0.1, f"{name}: expected a number from 0 to {2**53}, got -0.1") for name in TIMINGS),
        *((name, "x", f"{name}: expected a number from 0 to {2**53}, got 'x'") for name in TIMINGS),
        ("seconds", True, "seconds: expected a number from 0 to 9007199254740992, got True"),
        ("seconds", "inf", "seconds: expected a number from 0 to 9007199254740992, got 'inf'"),
        ("seconds", 1e300, "seconds: expected a number from 0 to 9007199254740992, got 1e+300"),
        ("classes", 2.5, "classes: expected a whole number or null, got 2.5"),
        ("gamma", {"a": 1}, "gamma: expected a list of 4 numbers, got {'a': 1}"),
        ("gamma", {"inf": 1, "nan": 1, "-inf": 1, "x": 1}, "gamma: expected a list of 4 numbers, got {"),
        ("gamma", 0.5, "gamma: expected a list of 4 numbers, got 0.5"),
        ("gamma", None, "gamma: expected a list of 4 numbers, got None"),
        ("gamma", [0.1, 0.2], "gamma: expected a list of 4 numbers, got [0.1, 0.2]"),
        ("gamma", [0.1, [0.2], 0.3, 0.4], "gamma: expected a list of 4 numbers, got [0.1, [0.2], 0.3, 0.4]"),
        ("gamma", [True] * 4, "gamma: expected a list of 4 numbers, got [True, True, True, True]"),
        ("gamma", ["Infinity"] * 4, "gamma: expected a list of 4 numbers, got ['Infinity'"),
        ("gamma_undefined", [0, 0, 0, 0.5], "gamma_undefined: expected a list of 4 whole numbers, got [0, 0, 0, 0.5]"),
        ("gamma_undefined", [0, 0, 0, 2**60], "gamma_undefined: expected a list of 4 whole numbers"),
        ("hidden_norms", [1.0] * 4, "hidden_norms: expected a list of 5 numbers, got [1.0, 1.0, 1.0, 1.0]"),
        ("hidden_norms", [], "hidden_norms: expected a list of 5 numbers, got []"),
        ("update_cosines", [1.0] * 5, "update_cosines: expected a list of 6 numbers"),
        ("weight_cosine", 0.5, "weight_cosine: expected a list of numbers"),
        ("rho_valid", [1, 0, 1, 1], "rho_valid: expected a list of 4 truth values, got [1, 0, 1, 1]"),
        ("gamma_quantiles", [[0.1, 0.2], [0.1], None, None], "gamma_quantiles: expected a list of 4 lists of numbers"),
        ("gamma_null_draws", [[0.1], 0.1, [0.1], [0.1]], "gamma_null_draws: expected a list of 4 lists of numbers"),
        ("gamma_null_draws", [[[0.1]]] * 4, "gamma_null_draws: expected a list of 4 lists of numbers"),
        ("gama", [0.1] * 4, "unknown entry 'gama', did you mean 'gamma'? A newer faudit may have written it"),
        ("warp", 9, "unknown entry 'warp'. A newer faudit may have written it: then upgrade"),
        ("\ud800", 9, "unknown entry '\\ud800'"),
        ("null_of", None, "unknown entry 'null_of'"),
    ],
)
@pytest.mark.parametrize("everywhere", [False, True], ids=["one row", "every row"])
def test_a_damaged_entry_is_refused_in_one_line_with_its_place(
    entry: str, value: object, told: str, everywhere: bool
) -> None:
    rows = sound_rows()
    for row in rows if everywhere else rows[2:3]:
        row[entry] = value
    with pytest.raises(StoreError) as caught:
        read(rows)
    text = str(caught.value)
    if not everywhere:
        assert text.startswith(f"rows.jsonl, line 3 is damaged: {told}")
    assert re.match(r"rows\.jsonl, line \d is damaged: ", text) and "\n" not in text
    assert text.endswith(f". {AGAIN}")


@pytest.mark.parametrize("entry", sorted(ENTRIES.required))
def test_a_row_without_an_entry_that_every_row_has_is_refused(entry: str) -> None:
    rows = sound_rows()
    del rows[1][entry]
    with pytest.raises(StoreError, match=rf"line 2 is damaged: {entry}: expected in every row, got none"):
        read(rows)


@pytest.mark.parametrize("entry", sorted(set(ENTRIES.logged) - ENTRIES.required))
def test_any_other_entry_may_be_missing(entry: str) -> None:
    rows = [{name: value for name, value in row.items() if name != entry} for row in sound_rows()]
    assert read(rows) == rows


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"3",
        b'"row"',
        b"{",
        b'{"epoch": 0',
        b"\xff",
        b"[" * 100_000,
        b'{"epoch": NaN}',
        b'{"epoch": 1e999}',
    ],
)
def test_what_is_no_row_is_refused_by_its_line(line: bytes) -> None:
    lines = [json.dumps(row).encode() for row in sound_rows()]
    with pytest.raises(StoreError, match=r"^rows.jsonl, line 7 is damaged: expected") as caught:
        from_lines([lines[0], line, *lines[2:]], where="rows.jsonl", first=6)
    assert "\n" not in str(caught.value)


def test_a_network_does_not_change_its_depth_from_row_to_row() -> None:
    rows = sound_rows()
    deeper = [
        row if place < 2 else dict(fabricate.row(PROBED, place, random.Random(0))) for place, row in enumerate(rows)
    ]
    for row in deeper[2:]:
        for name in list(row):
            if isinstance(row[name], list):
                row[name] = [*row[name], row[name][-1]]
    read(deeper[:2]), read(deeper[2:])
    with pytest.raises(StoreError, match="line 3 is damaged: hidden_norms: expected a list of 5 numbers, got"):
        read(deeper)


def is_sound(rows: list[Any]) -> bool:
    """The same question, value by value."""

    def number(value: Any, kind: str, *, finite: bool) -> bool:
        if value is None or (isinstance(value, str) and value in OVERFLOWED):
            return not finite and (value is None or kind == "number")
        if isinstance(value, bool):
            return kind == "flag"
        if isinstance(value, int):
            return (kind == "number" and abs(value) <= EXACT) or (kind == "count" and 0 <= value <= EXACT)
        return isinstance(value, float) and kind == "number"

    blocks = None
    for row in rows:
        if not isinstance(row, dict) or not ENTRIES.required <= row.keys() <= ENTRIES.logged.keys():
            return False
        blocks = blocks or len(row["hidden_norms"]) - 1 if isinstance(row["hidden_norms"], list) else None
        if not blocks or blocks < 1:
            return False
        for name, value in row.items():
            entry = ENTRIES[name]
            cells = [value]
            if entry.shape != "scalar":
                if not isinstance(value, list) or (
                    entry.shape != "feedback" and len(value) - blocks not in SHAPES[entry.shape][1]
                ):
                    return False
                cells = value
            if entry.shape in NESTED:
                lists = [cell for cell in cells if cell is not None]
                if not all(isinstance(cell, list) and len(cell) == len(lists[0]) for cell in lists):
                    return False
                cells = [number for cell in lists for number in cell]
            if not all(number(cell, entry.kind, finite=entry.finite) for cell in cells):
                return False
            if name in TIMINGS and not (isinstance(value, int | float) and 0 <= value <= EXACT):
                return False
    epochs = [row["epoch"] for row in rows]
    return epochs == sorted(set(epochs))


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 5), st.sampled_from([EXACT, EXACT + 1, -EXACT, -EXACT - 1, 2**63]),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["inf", "-inf", "nan", "x", ""]),
)  # fmt: skip
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=7),
    st.lists(st.floats(0, 1), min_size=4, max_size=6),
    st.lists(st.one_of(st.none(), st.lists(SCALARS, max_size=3)), min_size=3, max_size=5),
    st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=4, max_size=4),
    st.dictionaries(st.sampled_from(["inf", "a"]), SCALARS, max_size=4),
)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(sorted(ENTRIES)), VALUES), max_size=3), st.booleans())
def test_a_file_is_read_exactly_if_it_is_sound_value_by_value(changes: list[tuple[int, str, Any]], drop: bool) -> None:
    rows = sound_rows()
    for place, name, value in changes:
        rows[place][name] = value
        if drop and place:
            rows[place].pop(name)
    try:
        read(rows)
    except StoreError:
        assert not is_sound(rows)
    else:
        assert is_sound(rows)


def test_all_rows_at_once_are_refused_exactly_if_two_neighbours_are() -> None:
    rows = sound_rows()
    rows[2]["gamma"] = rows[2]["gamma"][:2]
    checked([dict(row) for row in rows[:2]])
    for some in (rows, rows[1:3]):
        with pytest.raises(Damage, match="gamma"):
            checked([dict(row) for row in some])


def test_a_row_knows_the_declared_entries_and_no_other() -> None:
    row = Row(acc_eval=0.5, gamma=[0.1, None])
    assert row.number("acc_eval") == 0.5 and row.numbers("gamma") == [0.1, None]
    assert row.number("stability") is None and row.numbers("rho") == []
    with pytest.raises(KeyError):
        row.number("acc_evil")
    with pytest.raises(KeyError):
        row.numbers("gama")


def test_no_entry_has_the_name_of_a_setting_or_of_another_entry() -> None:
    """A table of rows has both side by side."""
    assert not set(ENTRIES.logged) & {*all_keys(), "run_id", "status"}
    assert not set(ENTRIES.logged) & {entry.name for entry in FOREIGN}


def test_overflow_names_the_entry_and_the_place() -> None:
    assert overflow({"epoch": 1, "a": [1.0, None], "b": None}) is None
    assert overflow({"epoch": 1, "a": [1.0, math.nan], "b": math.inf}) == ("a", 1)
    assert overflow({"epoch": 1, "a": [1.0], "b": math.inf}) == ("b", None)


def test_growth_is_the_largest_ratio_of_neighbours() -> None:
    assert growth([1.0, 2.0, 10.0, 5.0]) == 5.0
    assert growth([1.0, 0.5]) == 0.5
    assert growth([0.0, 0.0, 1.0, 2.0]) == math.inf


def test_growth_that_overflowed_is_infinite_and_only_what_has_no_value_is_none() -> None:
    """Else the most exploded of all runs would read as "not measured"."""
    assert growth([1.0, 10.0, math.inf]) == growth([1.0, math.nan]) == math.inf
    assert growth([1.0]) is None and growth([0.0, 0.0]) is None
