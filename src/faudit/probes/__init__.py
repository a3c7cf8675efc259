"""Probes: one file each, all with the interface of ``probes.probe.Probe``. Their results together form a row.

A probe class declares what it writes (``entries``), when it runs (``tier``), what it needs from a reading (``needs``)
and the ``version`` of its numbers. The declarations are literals and are read from the source, so the code that shows,
checks or plots a row knows its entries without importing torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from faudit.errors import ConfigError
from faudit.registry import Registry, declared

if TYPE_CHECKING:
    from faudit.probes.probe import Probe  # noqa: F401  # used in a quoted type below, which ruff does not read

Shape = Literal["scalar", "taps", "blocks", "parts", "draws", "quantiles", "feedback"]
Kind = Literal["number", "count", "flag", "text"]
Tier = Literal["cheap", "full"]  # at every logged epoch; at the end and on request
# In order: labels that name a class, a signal for each block, the weights by part, the rule's step and feedback.
Need = Literal["classes", "credit", "parameters", "rule"]

# For a network of L blocks: how a shape is written, and the possible lengths of its list minus L.
SHAPES: Mapping[Shape, tuple[str, tuple[int, ...]]] = {
    "scalar": ("", ()),
    "taps": ("[L+1]", (1,)),
    "blocks": ("[L]", (0,)),
    "parts": ("[L+2]", (2,)),  # embed, blocks, readout
    "draws": ("[L][draws]", (0,)),
    "quantiles": ("[L][5]", (0,)),
    "feedback": ("[feedback]", ()),  # one for each feedback matrix that replaces a forward weight: any number
}
NESTED = ("draws", "quantiles")  # shapes whose elements are lists of equal length


@dataclass(frozen=True)
class Entry:
    """One declared entry of a row. ``unit`` and ``symbol`` (TeX, with ``_l`` for the tap or block) label an axis."""

    name: str
    shape: Shape
    text: str
    kind: Kind = "number"
    unit: str = ""
    symbol: str = ""
    required: bool = False  # every version of faudit writes it into every row
    finite: bool = False  # it is never null and never overflows

    def fits(self, length: int, blocks: int) -> bool:
        """Whether its list may have this length for a number of blocks; never for a network without blocks."""
        return length in self.lengths(blocks) or (self.shape == "feedback" and blocks > 0)

    def lengths(self, blocks: int) -> set[int]:
        """The possible lengths of its list for a number of blocks; empty for a network without blocks."""
        return {blocks + more for more in SHAPES[self.shape][1]} if blocks > 0 else set()


@dataclass(frozen=True)
class Declaration:
    """The declaration of a probe."""

    entries: tuple[Entry, ...]
    tier: Tier
    version: int
    needs: tuple[Need, ...] = ()


class Probes(Registry["type[Probe]"]):
    """The probes by name, with their declarations."""

    def declared(self, name: str) -> Declaration:
        """The declaration of a probe, read from its source without importing it."""
        self._target(name)  # raises for an unknown name
        return self._declarations[name]

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry of every probe, by name."""
        return {entry.name: entry for one in self._declarations.values() for entry in one.entries}

    @cached_property
    def _declarations(self) -> dict[str, Declaration]:
        return {name: self._read(name) for name in self}

    def _read(self, name: str) -> Declaration:
        _, own = self.source(name)
        found: dict[str, Any] = {}
        try:
            for part in fields(Declaration):
                with suppress(KeyError):
                    found[part.name] = declared(own, part.name, Entry)
            return Declaration(**found)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the probe {name!r}: expected its class to declare entries, tier and version as literals, got {error}"
            ) from None


PROBES = Probes(
    "probe",
    {
        "norms": "faudit.probes.norms:Norms",
        "gradients": "faudit.probes.gradients:Gradients",
        "alignment": "faudit.probes.alignment:Alignment",
        "accuracy": "faudit.probes.accuracy:Accuracy",
        "perturbation": "faudit.probes.perturbation:Perturbation",
        "precision": "faudit.probes.precision:Precision",
        "stability": "faudit.probes.stability:Stability",
        "nudging": "faudit.probes.nudging:Nudging",
        "distribution": "faudit.probes.distribution:Distribution",
        "update": "faudit.probes.update:Update",
        "linear": "faudit.probes.linear:LinearProbe",
        "movement": "faudit.probes.movement:Movement",
        "rank": "faudit.probes.rank:Rank",
        "weights": "faudit.probes.weights:Weights",
        "swap": "faudit.probes.swap:Swap",
        "samples": "faudit.probes.samples:Samples",
    },
)
