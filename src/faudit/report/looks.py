"""The colour and dash of each method, for light and dark pages; the colours are those of the figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from faudit.report.runs import Page

DASHES: dict[Any, list[float]] = {"-": [], "--": [6, 3], "-.": [7, 2, 2, 2], ":": [2, 2]}
DARK = 0.40  # luminance that a line needs on a dark page
LENGTH = 1.5  # pixels per unit of matplotlib's dashes


def looks_of(pages: Iterable[Page]) -> list[dict[str, Any]]:
    """The look of each method: the colour of its rule and penalty, and a dash that no other with this colour has."""
    from faudit.figures.style import DASHES as OTHERS
    from faudit.figures.style import look

    found, met = [], dict[str, list[Any]]()
    for page in pages:
        assert page.config is not None, "a damaged run is not drawn"
        settings = page.config.settings
        _, how = look({"rule": page.config.rule, "penalty": settings.get("penalty", 0.0)})
        colour, own = how["color"], how["linestyle"]
        used = met.setdefault(colour, [])
        free = [dash for dash in (own, *OTHERS) if dash not in used]
        dash = free[0] if free else OTHERS[len(used) % len(OTHERS)]
        used.append(dash)
        found.append({"colour": colour, "dark": lightened(colour), "dash": pattern(dash)})
    return found


def pattern(dash: Any) -> list[float]:
    """A dash of matplotlib as the lengths of an SVG stroke."""
    return list(DASHES[dash]) if isinstance(dash, str) else [LENGTH * length for length in dash[1]]


def lightened(colour: str) -> str:
    """The colour mixed with white until it is bright enough for a dark page."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    for share in range(11):
        mixed = [part + (1 - part) * share / 10 for part in parts]
        if 0.2126 * mixed[0] + 0.7152 * mixed[1] + 0.0722 * mixed[2] >= DARK:
            break
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)
