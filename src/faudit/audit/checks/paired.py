"""Depth utility, sample by sample: do the trained blocks do better than frozen ones on the same test samples?

The number, its threshold and its meaning are those of ``depth``. The interval is narrower, because both networks were
tested on the same samples. Only the samples count that exactly one of the two gets right. With E errors of the run, E′
of its control, and m samples that one of them alone gets right,

    log(E / E′) has the standard error √((m + 1) / ((E + ½)(E′ + ½))),

as for the ratio of two paired proportions. The added numbers give an interval to networks that never differ. Runs keep
their answers since this check exists; without them the interval is that of ``depth``, and the reason says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import ClassVar

from faudit.audit.checks.check import Case, Control
from faudit.audit.checks.depth import Against, Depth
from faudit.store.answers import unpacked


@dataclass(frozen=True)
class Paired(Depth):
    """The share of the frozen blocks' errors that training the blocks removes, compared sample by sample."""

    name: ClassVar[str] = "paired"

    def removed(self, both: Against, case: Case) -> tuple[float, float, float, str]:
        controls = [control for control in case.frozen if control.right]
        if case.right is None or len(controls) != 1 or len(case.frozen) != 1:
            value, low, high, _ = super().removed(both, case)
            return value, low, high, "; answers of single samples were not kept"
        return (*sample_by_sample(case.right, controls[0], samples=case.samples), "")


def sample_by_sample(right: str, control: Control, *, samples: int) -> tuple[float, float, float]:
    """The share of errors removed and its interval, from the answers of both networks."""
    assert control.right is not None, "the caller chose a control with answers"
    ours, frozen = unpacked(right, samples), unpacked(control.right, samples)
    errors, before = samples - ours.bit_count() + 0.5, samples - frozen.bit_count() + 0.5
    spread = 1.96 * sqrt(((ours ^ frozen).bit_count() + 1.0) / (errors * before))
    ratio = errors / before
    return 1 - ratio, 1 - ratio * exp(spread), 1 - ratio * exp(-spread)
