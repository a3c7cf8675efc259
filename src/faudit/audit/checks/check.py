"""The interface of a check: it turns a case into a finding with a number, a threshold and a reason.

A check is a frozen value. Its fields are its thresholds. Its class declares the name, the row entries that it reads,
and a grid on which each threshold is varied. A finding is ``passed``, ``fired``, ``undecided`` (measured, but too
uncertain), ``invalid`` (a control of the measurement failed), ``not measured`` or ``not applicable``. The judge turns
the findings into a verdict. A check reads only the last row, so a run can be judged as of any epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any, ClassVar

from faudit.config import RunConfig
from faudit.store.rows import Row, finite
from faudit.store.watched import WatchedConfig

PASSED, FIRED, UNDECIDED, INVALID = "passed", "fired", "undecided", "invalid"
NOT_MEASURED, NOT_APPLICABLE = "not measured", "not applicable"
FRESH, TURNED = "fresh feedback", "the same credit turned at random"  # the null of Γ


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str
    status: str
    reason: str
    value: float | None = None
    threshold: float | None = None
    low: float | None = None
    high: float | None = None
    first_fire: int | None = None  # the first logged epoch at which it would have fired
    within: tuple[float, float] = (-inf, inf)  # the values that are possible

    def to_json(self) -> dict[str, Any]:
        """The finding as strict JSON."""
        return {name: finite(value) for name, value in asdict(self).items() if name != "within"}


@dataclass(frozen=True)
class Control:
    """A matched run whose blocks never trained: its final accuracy and, if known, that of each epoch."""

    run: str
    accuracy: float
    history: Mapping[int, float] = field(default_factory=dict)
    by_hand: bool = False  # the caller gave the accuracy; faudit has not measured it
    right: str | None = None  # its answers to the test samples at the end (``store/answers.py``), if they were kept

    def at(self, epoch: int) -> float | None:
        """The accuracy at an epoch; None if it was not logged."""
        return self.history.get(epoch) if self.history else self.accuracy


@dataclass(frozen=True)
class Case:
    """The input of the checks: the rows of one run, the last with the costly probes if measured, and its controls."""

    config: RunConfig | None  # None for a foreign model
    rows: Sequence[Row]
    samples: int  # size of the set on which accuracies were measured
    classes: int  # 0 if the outputs are not classes
    frozen: Sequence[Control] = ()
    trains_blocks: bool = True  # False for a control itself
    no_control: str | None = None  # the reason, if its rule can have no frozen control
    no_credit: str | None = None  # the reason, if its rule has no signal at the taps
    right: str | None = None  # the answers to the test samples at the last row, if they were kept

    @property
    def last(self) -> Row:
        """The row that the checks read."""
        return self.rows[-1]

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the test set of a run, or on the buffer of a foreign model."""
        value: float | None = self.last.get("test_acc")
        return value

    @property
    def frozen_accuracies(self) -> list[float]:
        """The accuracies of the controls at the epoch of the last row."""
        found = [control.at(self.last["epoch"]) for control in self.frozen]
        return [accuracy for accuracy in found if accuracy is not None]

    @property
    def is_watched(self) -> bool:
        """Whether the network was trained by a loop that faudit only watched."""
        return isinstance(self.config, WatchedConfig)

    @property
    def knows_rule(self) -> bool:
        """Whether faudit trained the network, and so knows its rule and which of its weights are the embedding."""
        return self.config is not None and not self.is_watched

    def at_taps(self, entry: str) -> list[tuple[int, Any]]:
        """The numbers of an entry at the states whose gradient is a reference, each with the place of its state.

        A watched run also has the input of its first block. No signal is compared with the gradient there, and
        ``audit_model`` does not measure it.
        """
        found = list(enumerate(self.last.get(entry) or []))
        return found[1:] if self.is_watched else found

    @property
    def is_double(self) -> bool:
        """Whether the network itself runs in float64."""
        dtype = self.last.get("dtype") if self.config is None else self.config.dtype
        return bool(dtype == "float64")

    @property
    def null_of(self) -> str | None:
        """The null of Γ; None without a credit."""
        value: str | None = self.last.get("null_of", FRESH)
        return None if self.no_credit else value

    @property
    def lacks_credit(self) -> str:
        """Why there is no credit to judge."""
        return f"the rule has no signal at the taps: {self.no_credit}" if self.no_credit else "no credit was given"

    @property
    def earlier(self) -> list[Case]:
        """The case as of each row, without epoch 0, which is untrained; none for a foreign model, without epochs."""
        if self.config is None:
            return []
        return [self.until(place) for place, row in enumerate(self.rows) if row["epoch"] > 0]

    def until(self, place: int) -> Case:
        """The case as of an earlier row, of which no single answers are known."""
        is_last = place + 1 == len(self.rows)
        return replace(self, rows=self.rows[: place + 1], right=self.right if is_last else None)


def at_least(value: float, limit: float) -> str:
    """Passed if value ≥ limit; NaN fires."""
    return PASSED if value >= limit else FIRED


def at_most(value: float, limit: float) -> str:
    """Passed if value ≤ limit; NaN fires."""
    return PASSED if value <= limit else FIRED


@dataclass(frozen=True)
class Check(ABC):
    """Base class of checks: a frozen dataclass whose fields are its thresholds, each with a default."""

    name: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]  # row entries; if one is missing, the finding is "not measured"
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {}  # threshold → values for the sensitivity table
    within: ClassVar[tuple[float, float]] = (-inf, inf)  # the values that are possible; cuts an interval over seeds

    @abstractmethod
    def find(self, case: Case) -> Finding:
        """The finding on a case; a pure function."""

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
        """A finding with this check's name."""
        return Finding(self.name, status, reason, value, threshold, low, high, within=self.within)

    def lacks_entries(self, row: Row) -> bool:
        """Whether some entry that the check reads was not measured."""
        return any(row.get(name) is None for name in self.reads)
