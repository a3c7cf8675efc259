"""Times are printed in seconds, minutes or hours."""

from __future__ import annotations

from faudit.sweep.estimate import span


def test_a_time_is_printed_in_the_unit_that_suits_it() -> None:
    assert [span(value) for value in (3.2, 89, 100, 5000, 7200)] == ["3 s", "89 s", "2 min", "83 min", "2.0 h"]
