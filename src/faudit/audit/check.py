"""The check contract: what is known of a run → a finding, with its number, its threshold and its reason.  (no torch)

A finding is ``passed``, ``fired``, ``undecided`` (measured, and the interval holds the threshold), ``invalid`` (a
control of the measurement failed), ``not measured`` or ``not applicable``. Nothing else decides, and nothing is decided
here: that is the judge's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from faudit.audit.protocol import Protocol
from faudit.config import RunConfig
from faudit.rows import Row, finite

PASSED, FIRED, UNDECIDED, INVALID = "passed", "fired", "undecided", "invalid"
NOT_MEASURED, NOT_APPLICABLE = "not measured", "not applicable"
FRESH, TURNED = "fresh feedback", "the same credit turned at random"  # what Γ is held against


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    check: str
    status: str
    reason: str
    value: float | None = None
    threshold: float | None = None
    low: float | None = None
    high: float | None = None
    first_fire: int | None = None  # the first logged epoch at which it would have fired

    def to_json(self) -> dict[str, Any]:
        return {name: finite(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Control:
    """A matched run whose blocks never trained."""

    run: str
    accuracy: float


@dataclass(frozen=True)
class Case:
    """One run as the checks see it: rows, the last with the costly probes if they were measured, and controls."""

    config: RunConfig | None  # None for a foreign model
    rows: Sequence[Row]
    samples: int  # of the set that accuracies were taken on
    classes: int
    frozen: Sequence[Control] = ()

    @property
    def last(self) -> Row:
        return self.rows[-1]

    @property
    def accuracy(self) -> float | None:
        value = self.last.get("test_acc")
        return value if value is not None else self.last.get("acc_eval")

    @property
    def is_frozen(self) -> bool:
        return self.config is not None and self.config.rule.startswith("frozen")

    @property
    def null_of(self) -> str | None:
        """What Γ is held against; None where a foreign model was given without a credit."""
        value: str | None = self.last.get("null_of", FRESH)
        return value


class Check(ABC):
    """The face of every check."""

    @abstractmethod
    def find(self, case: Case, protocol: Protocol) -> Finding:
        """The finding on a case; pure."""
