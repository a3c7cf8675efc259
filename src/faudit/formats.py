"""Numbers as text: the one place that decides how many digits a reader sees.  (no torch)"""

from __future__ import annotations

from typing import Any


def share(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "–"


def size(value: Any) -> str:
    """Three digits of a number of any size; a dash where it was not measured or has no value."""
    return "–" if value is None else f"{float(value):.3g}"


def times(value: float | str | None) -> str:
    return "–" if value is None else f"{float(value):.3g}×"


def gammas(values: list[float | None] | None) -> str:
    return " ".join("  –  " if value is None else f"{float(value):+.2f}" for value in values or [])
