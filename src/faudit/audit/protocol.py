"""Protocols: named, versioned sets of checks. A verdict names its protocol.

``paper`` is the published protocol. ``faudit-1`` asks the same questions with numbers that do not depend on the size of
the buffer, the fit of the network or the difficulty of the data. It checks the gradient's precision instead of its
size and the share of errors removed instead of points, and it compares feedback with newly drawn feedback. ``faudit-2``
also checks that the accuracy is above chance. ``faudit-3`` also asks each deep block by itself, each sample against
others, and whether other feedback changes the update. ``faudit-4`` compares trained with frozen blocks sample by
sample, so its interval is narrower. It is the default. The thresholds of a named protocol never change; a better
threshold makes a new protocol.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any

from faudit.audit.checks.blocks import Blocks
from faudit.audit.checks.chance import Chance
from faudit.audit.checks.check import Check
from faudit.audit.checks.controls import Controls
from faudit.audit.checks.depth import Depth
from faudit.audit.checks.feedback import Feedback
from faudit.audit.checks.floor import Floor
from faudit.audit.checks.movement import Movement
from faudit.audit.checks.null import Null
from faudit.audit.checks.paired import Paired
from faudit.audit.checks.points import Points
from faudit.audit.checks.rank import Rank
from faudit.audit.checks.reference import Reference
from faudit.audit.checks.samples import Samples
from faudit.audit.checks.scale import Scale
from faudit.audit.checks.stability import Stability
from faudit.audit.checks.swap import Swap
from faudit.errors import ConfigError
from faudit.registry import unknown


@dataclass(frozen=True)
class Protocol:
    """A named set of checks. Checks in ``labels`` name the kind of failure and do not affect the verdict.

    ``protocol["scale"]`` is the check of that name.
    """

    name: str
    checks: tuple[Check, ...]
    labels: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        if not self.checks:
            raise ConfigError(f"protocol {self.name}: expected at least one check, got none")
        asked = [check.name for check in (*self.checks, *self.labels)]
        for what, names in (("check", asked), ("threshold", [name for name, _ in self.thresholds])):
            for name, count in Counter(names).items():
                if count > 1:  # tables and ``protocol[name]`` identify them by name
                    raise ConfigError(f"protocol {self.name}: expected each {what} once, got {name!r} {count} times")

    def __getitem__(self, name: str) -> Any:  # a check; its thresholds depend on its name
        found = {check.name: check for check in (*self.checks, *self.labels)}
        if name not in found:
            raise ConfigError(unknown(f"check of the protocol {self.name}", name, found))
        return found[name]

    @property
    def thresholds(self) -> list[tuple[str, float]]:
        """The name and value of every threshold."""
        checks = (*self.checks, *self.labels)
        return [(entry.name, getattr(check, entry.name)) for check in checks for entry in fields(check)]

    def with_check(self, check: Check) -> Protocol:
        """A copy in which the given check replaces the one of the same name."""
        return replace(self, checks=tuple(check if one.name == check.name else one for one in self.checks))


FAUDIT_1 = Protocol(
    "faudit-1",
    checks=(
        Scale(growth=50.0),
        Reference(agreement=0.95),
        Rank(rank=2.0),
        Depth(errors_removed=0.03, settled=5),
        Movement(turn=1e-3),
        Feedback(),
        Null(quantile=1.77, opposed=4.0),
        Controls(),
    ),
    labels=(Stability(stability=0.30),),
)
FAUDIT_2 = Protocol("faudit-2", checks=(*FAUDIT_1.checks, Chance()), labels=FAUDIT_1.labels)
FAUDIT_3 = Protocol(
    "faudit-3",
    checks=(*FAUDIT_2.checks, Blocks(each=4.0), Samples(own=3.0), Swap(turned=1e-6)),
    labels=FAUDIT_1.labels,
)
FAUDIT_4 = Protocol(
    "faudit-4",
    checks=tuple(
        Paired(errors_removed=one.errors_removed, settled=one.settled) if isinstance(one, Depth) else one
        for one in FAUDIT_3.checks
    ),
    labels=FAUDIT_1.labels,
)
PAPER = Protocol(
    "paper",
    checks=(Scale(growth=50.0), Floor(floor=1e-4), Points(points=0.02)),
    labels=(Stability(stability=0.30),),
)
PROTOCOLS = {protocol.name: protocol for protocol in (FAUDIT_4, FAUDIT_3, FAUDIT_2, FAUDIT_1, PAPER)}
DEFAULT = FAUDIT_4.name


def protocol(asked: str | Protocol) -> Protocol:
    """The protocol of a name; a ``Protocol`` is returned unchanged."""
    if isinstance(asked, Protocol):
        return asked
    if asked not in PROTOCOLS:
        raise ConfigError(unknown("protocol", asked, PROTOCOLS))
    return PROTOCOLS[asked]
