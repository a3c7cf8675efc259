"""The check contract: what is known of a run → a finding, with its number, its threshold and its reason.

A check is a frozen value. Its fields are its thresholds; its class names the check, the row entries it reads, and the
grid on which each threshold is varied. A finding is ``passed``, ``fired``, ``undecided`` (measured, and too uncertain
to say), ``invalid`` (a control of the measurement failed), ``not measured`` or ``not applicable``. The judge makes a
verdict of the findings. A check reads the last row alone, so that a run can be judged as it stood at any epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from faudit.config import RunConfig
from faudit.store.rows import Row, finite

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
        """The finding as strict JSON holds it."""
        return {name: finite(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Control:
    """A matched run whose blocks never trained: its accuracy at the end and, where it is known, at each epoch."""

    run: str
    accuracy: float
    history: Mapping[int, float] = field(default_factory=dict)
    by_hand: bool = False  # the caller gave the accuracy; faudit has not measured it

    def at(self, epoch: int) -> float | None:
        """Its accuracy at an epoch; None where it was not logged then."""
        return self.history.get(epoch) if self.history else self.accuracy


@dataclass(frozen=True)
class Case:
    """One run as the checks see it: rows, the last with the costly probes if they were measured, and controls."""

    config: RunConfig | None  # None for a foreign model
    rows: Sequence[Row]
    samples: int  # of the set that accuracies were taken on
    classes: int  # 0 where the outputs are no classes
    frozen: Sequence[Control] = ()
    trains_blocks: bool = True  # False for a control itself
    no_control: str | None = None  # why no frozen control of its rule can be made, where none can

    @property
    def last(self) -> Row:
        """The row that the checks read."""
        return self.rows[-1]

    @property
    def accuracy(self) -> float | None:
        """On the samples that ``samples`` counts: the test set of a run, the buffer of a foreign model."""
        value: float | None = self.last.get("test_acc")
        return value

    @property
    def frozen_accuracies(self) -> list[float]:
        """Those of the controls at the last row's epoch."""
        found = [control.at(self.last["epoch"]) for control in self.frozen]
        return [accuracy for accuracy in found if accuracy is not None]

    @property
    def is_double(self) -> bool:
        """Whether the network itself is computed in float64."""
        dtype = self.last.get("dtype") if self.config is None else self.config.dtype
        return bool(dtype == "float64")

    @property
    def null_of(self) -> str | None:
        """What Γ is held against; None where a foreign model was given without a credit."""
        value: str | None = self.last.get("null_of", FRESH)
        return value

    def until(self, place: int) -> Case:
        """The run as it stood at an earlier row."""
        return replace(self, rows=self.rows[: place + 1])


def at_least(value: float, limit: float) -> str:
    """Passed from the limit on; NaN is on neither side of it, and no pass."""
    return PASSED if value >= limit else FIRED


def at_most(value: float, limit: float) -> str:
    """Passed up to the limit; NaN is no pass."""
    return PASSED if value <= limit else FIRED


@dataclass(frozen=True)
class Check(ABC):
    """The face of every check: a frozen dataclass whose fields are its thresholds, each with a default."""

    name: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]  # entries of a row; where one is missing, the finding is "not measured"
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {}  # threshold → the values at which verdicts are asked again

    @abstractmethod
    def find(self, case: Case) -> Finding:
        """The finding on a case; pure."""

    def finding(
        self,
        status: str,
        reason: str,
        *,
        value: float | None = None,
        threshold: float | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> Finding:
        """A finding under this check's name."""
        return Finding(self.name, status, reason, value, threshold, low, high)

    def lacks_entries(self, row: Row) -> bool:
        """Whether an entry that the check reads was not measured."""
        return any(row.get(name) is None for name in self.reads)
