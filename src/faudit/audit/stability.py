"""Stability: a label for the kind of failure. Near 1, the mean gradient is one direction whatever the batch."""

from __future__ import annotations

from faudit.audit.check import FIRED, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.audit.protocol import Protocol


class Stability(Check):
    """Mean pairwise cosine between the mean gradients of disjoint batches."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.stability
        measured = [(row["epoch"], row.get("stability")) for row in case.rows]
        value = measured[-1][1]
        first = next((epoch for epoch, one in measured if one is not None and one > limit), None)
        if value is None:
            return Finding("stability", NOT_MEASURED, "not measured", threshold=limit, first_fire=first)
        reason = f"the mean gradients of disjoint batches have cosine {value:.2f}, labelled above {limit:g}"
        status = FIRED if value > limit else PASSED
        return Finding("stability", status, reason, value=value, threshold=limit, first_fire=first)
