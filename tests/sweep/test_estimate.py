"""Times are told as a person says them."""

from __future__ import annotations

from faudit.sweep.estimate import span


def test_times_as_a_person_says_them() -> None:
    assert [span(value) for value in (3.2, 89, 100, 5000, 7200)] == ["3 s", "89 s", "2 min", "83 min", "2.0 h"]
