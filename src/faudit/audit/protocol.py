"""Protocols: frozen, versioned sets of checks and thresholds. A verdict names the protocol it was made by.  (no torch)

``study`` is the published one. ``faudit-1`` asks the same questions of numbers that do not depend on the buffer's size,
on how well a network fits, or on how easy the data are: precision instead of a magnitude, the share of errors removed
instead of points, and feedback held against feedback drawn afresh. A threshold never changes under its name: a better
one is a new protocol.
"""

from __future__ import annotations

from dataclasses import dataclass

from faudit.errors import ConfigError
from faudit.registry import unknown


@dataclass(frozen=True)
class Protocol:
    """Which checks are asked, and where each fires. One in ``labels`` names the kind of failure and decides nothing."""

    name: str
    checks: tuple[str, ...]
    labels: tuple[str, ...]
    growth: float  # scale fires above: the largest growth of one block
    floor: float | None = None  # reference fires below: ‖∂ℓ/∂h_L‖ per sample
    agreement: float | None = None  # reference fires below: share of samples on whose direction float64 agrees
    stability: float = 0.30  # stability fires above
    points: float | None = None  # depth fires below: accuracy over that of frozen blocks
    errors_removed: float | None = None  # depth fires below: share of the frozen blocks' errors that are gone
    settled: int = 0  # depth is asked from so many epochs on: at first, a network with less to train learns faster
    quantile: float | None = None  # null-separation fires below so many standard deviations of chance
    opposed: float | None = None  # and where one block alone is so many below chance
    turn: float | None = None  # movement fires below: the least sin∠ between a matrix of a block and where it began
    rank: float | None = None  # rank fires below: effective number of directions of the samples' gradients


PROTOCOLS: dict[str, Protocol] = {
    "faudit-1": Protocol(
        name="faudit-1",
        checks=("scale", "reference", "rank", "depth", "movement", "feedback", "null", "controls"),
        labels=("stability",),
        growth=50.0,
        agreement=0.95,
        errors_removed=0.03,
        settled=5,
        quantile=1.77,  # one-sided 5 % where the spread comes from 20 draws: Student's t of 19 degrees, √(1 + 1/20)
        opposed=4.0,
        turn=1e-3,
        rank=2.0,
    ),
    "study": Protocol(
        name="study",
        checks=("scale", "reference", "depth"),
        labels=("stability",),
        growth=50.0,
        floor=1e-4,  # 1e-7 for the mean loss over 1024 samples
        points=0.02,
    ),
}


def protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise ConfigError(unknown("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]
