"""The claims: the order of the test errors, and each error."""

from __future__ import annotations

from faudit.papers.claim import Claim, Order, Part, full_error, last

ERROR = last(full_error)
ERRORS = {"predsim": 0.62, "pred": 0.68, "global": 0.75, "sim": 0.80}  # percent, with a jitter of 2 pixels
ORDERED = ("predsim", "pred", "global")


def error(experiment: str) -> Claim:
    published = ERRORS[experiment]
    part = Part("error", (experiment,), ERROR, "error", published, within=0.15)
    return Claim(f"test error, {experiment}", f"{published:.2f} %", (part,))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "test error: predsim ≤ pred ≤ global",
        ".62 ≤ .68 ≤ .75 %",
        (Order("error", ORDERED, ERROR, "error", tuple(ERRORS[name] for name in ORDERED), sign="≤"),),
    ),
    *map(error, ERRORS),
)
