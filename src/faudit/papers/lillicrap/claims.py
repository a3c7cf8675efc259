"""The claims: the signal of FA turns towards that of BP, and depth helps FA."""

from __future__ import annotations

import math

from faudit.figures.figure import at, of
from faudit.papers.claim import Asked, Between, Claim, Order, Part, at_epoch, last
from faudit.store.rows import Row

LINEAR, NONLINEAR = Asked(epochs=20, seeds=3), Asked(epochs=100, seeds=3)
NSE = last(of("nse"))


def angle(row: Row) -> float | None:
    """The angle between the signals of FA and BP at the hidden layer, in degrees."""
    cosine = at("gamma", 0)(row)
    return None if cosine is None else math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def linear(name: str, published: str, part: Part | Between) -> Claim:
    return Claim(f"linear network: {name}", published, (part,), LINEAR)


CLAIMS: tuple[Claim, ...] = (
    linear("angle at the start", "85°", Part("angle", ("linear FA",), at_epoch(0, angle), "angle", 85.0, within=5.0)),
    linear("angle after 300 steps", "< 35°", Between("angle", "linear FA", at_epoch(3, angle), "angle", 0.0, 35.0)),
    linear("angle at the end", "30°", Part("angle", ("linear FA",), last(angle), "angle", 30.0, within=5.0)),
    Claim(
        "nonlinear network: normalised squared error, FA with 4 layers < BP with 3",
        ".10 < .19 (BP4 1e-7, FA3 .22)",
        (Order("error", ("FA4", "BP3"), NSE, "norm", (0.10, 0.19)),),
        NONLINEAR,
    ),
)
