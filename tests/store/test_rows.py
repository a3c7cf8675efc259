"""Rows are strict JSON, and overflow is told apart from undefined."""

from __future__ import annotations

import json
import math

import pytest

from faudit.store.rows import from_line, growth, overflow, to_line


def test_a_row_survives_the_round_trip_as_strict_json() -> None:
    row = {"epoch": 3, "gamma": [None, 0.1 + 0.2], "hidden_norms": [1.0, math.inf, -math.inf], "test_acc": None}
    line = to_line(row)
    assert json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    assert from_line(line) == row
    back = from_line(to_line({"epoch": 0, "loss": math.nan}))
    assert math.isnan(back["loss"])


def test_undefined_and_overflowed_look_different_on_disk() -> None:
    assert '"a": null' in to_line({"epoch": 0, "a": None})
    assert '"a": "inf"' in to_line({"epoch": 0, "a": math.inf})
    assert '"a": "nan"' in to_line({"epoch": 0, "a": math.nan})


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"epoch": "3"}', '{"epoch": 3', "null"])
def test_what_is_not_a_row_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


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
