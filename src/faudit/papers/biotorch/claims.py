"""The claims: sign symmetry is as good as BP, and FA is worse."""

from __future__ import annotations

import math

from faudit.papers.claim import Between, Claim, full_error, last

ERROR = last(full_error)
BP = 0.91  # percent
ERRORS = {"uSF": 0.94, "brSF": 0.91, "frSF": 0.97, "FA": 1.70}


def difference(experiment: str, low: float, high: float) -> Claim:
    """The distance of an experiment's test error from that of BP, in percent points."""
    published = round(ERRORS[experiment] - BP, 2)
    what = f"{experiment} − BP"
    part = Between(what, experiment, ERROR, "error", low, high, minus="BP", published=published)
    return Claim(f"test error: {what}", f"{ERRORS[experiment]:.2f} − {BP:.2f} %", (part,))


CLAIMS: tuple[Claim, ...] = (
    *(difference(experiment, -0.2, 0.2) for experiment in ("uSF", "brSF", "frSF")),
    difference("FA", 0.4, math.inf),
)
