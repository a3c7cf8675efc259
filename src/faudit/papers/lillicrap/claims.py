"""The claims: the angle of FA's signal to BP's for a linear teacher, and the errors of four students of a tanh teacher.

An epoch of the linear runs has 300 steps.
"""

from __future__ import annotations

from math import acos, degrees

from faudit.figures.figure import at, of
from faudit.papers.claim import Between, Claim, Order, Part, at_epoch, last
from faudit.store.rows import Row

ERROR = last(of("test_nse"))


def angle(row: Row) -> float | None:
    """The angle between FA's and BP's signals at the hidden layer, in degrees."""
    cosine = at("gamma", -1)(row)
    return None if cosine is None else degrees(acos(max(-1.0, min(1.0, cosine))))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "linear: the angle starts near 90°",
        "85°",
        (Between("start", "linear FA", at_epoch(0, angle), "credit angle", 80.0, 100.0, published=85.0),),
    ),
    Claim(
        "linear: the angle is below 35° after 300 steps",
        "< 35°",
        (Between("step 300", "linear FA", at_epoch(1, angle), "credit angle", 0.0, 35.0),),
    ),
    Claim(
        "linear: the angle after 3000 steps",
        "about 30°",
        (Part("step 3000", ("linear FA",), at_epoch(10, angle), "credit angle", 30.0, within=5.0),),
    ),
    Claim(
        "tanh: FA uses depth: with four layers its NSE is below that of BP with three",
        ".10 < .19",
        (Order("FA4 < BP3", ("FA, 4 layers", "BP, 3 layers"), ERROR, "nse", (0.10, 0.19)),),
    ),
    Claim(
        "tanh: the order of all four by NSE",
        "1e-7 < .10 < .19 < .22",
        (
            Order(
                "BP4 < FA4 < BP3 < FA3",
                ("BP, 4 layers", "FA, 4 layers", "BP, 3 layers", "FA, 3 layers"),
                ERROR,
                "nse",
                (1e-7, 0.10, 0.19, 0.22),
            ),
        ),
    ),
)
