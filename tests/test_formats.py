"""Numbers as text: what a reader sees of each, at the places where the form changes."""

from __future__ import annotations

import pytest

from faudit import formats


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("share", 0.609, "0.6090"), ("share", None, "–"), ("share", "nan", "–"),
        ("size", 12345.0, "1.23e+04"), ("size", 0.5, "0.5"), ("size", "inf", "inf"), ("size", None, "–"),
        ("times", 50.123, "50.1×"), ("times", None, "–"),
        ("signed", 0.38, "+0.380"), ("signed", -0.0084, "-0.008"), ("signed", None, "–"),
        ("gammas", [0.5, None, -0.25], "+0.50   –   -0.25"), ("gammas", None, ""),
        ("printed_share", 0.6094, ".609"), ("printed_share", 1.0, "1.000"),
        ("printed_cosine", -0.0084, "−.008"), ("printed_cosine", 0.38, "+.380"), ("printed_cosine", 1.0, "+1.000"),
        ("printed_size", 200.4, "200"), ("printed_size", 6.534, "6.53"), ("printed_size", 0.1, "0.1"),
        ("printed_size", 0.0999, "1.0e-1"), ("printed_size", 1000.0, "1.0e3"), ("printed_size", 4.8e8, "4.8e8"),
        ("short", 120.4, "120"), ("short", 999.4, "999"), ("short", 1000.0, "1.0e3"), ("short", 1.34, "1.3"),
        ("short", 0.01, "0.01"), ("short", 0.0099, "9.9e-3"), ("short", 21800.0, "2.2e4"),
        ("exponential", 4.84e-5, "4.8e-5"),
        ("least_and_most", [2.0, 1.0, 300.0], "1 … 300"), ("least_and_most", [1.31, 1.32], "1.3"),
    ],
)  # fmt: skip
def test_a_number_is_written_so(form: str, value: object, text: str) -> None:
    assert getattr(formats, form)(value) == text


def test_the_deviation_has_no_sign_and_one_value_has_no_deviation() -> None:
    assert formats.mean_and_deviation([0.1, 0.2, 0.3], "+.3f") == "+0.200 ± 0.100"
    assert formats.mean_and_deviation([0.25], ".2f") == "0.25"
    assert formats.least_and_most([100.0, 120.0], "×") == "100× … 120×"


def test_a_table_in_html_shows_every_cell_as_text() -> None:
    text = formats.html_table([["<b>", "x"], ["</td><script>", '"&"']])
    assert text.count("<tr>") == 2 and "<script>" not in text and "&lt;b&gt;" in text and "&quot;&amp;&quot;" in text


def test_a_p_value_is_written_so() -> None:
    assert [formats.probability(p) for p in (None, 0.25, 0.03125, 0.00005)] == ["–", "0.25", "0.031", "< 0.0001"]
