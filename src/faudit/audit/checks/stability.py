"""Stability: a label for the kind of failure. Near 1, the mean gradient is one direction whatever the batch."""

from __future__ import annotations

from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_most
from faudit.audit.protocol import Protocol


class Stability(Check):
    """Mean pairwise cosine between the mean gradients of disjoint batches."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit, value = protocol.stability, case.last.get("stability")
        if value is None:
            return Finding("stability", NOT_MEASURED, "not measured", threshold=limit)
        reason = f"the mean gradients of disjoint batches have cosine {value:.2f}, labelled above {limit:g}"
        return Finding("stability", at_most(value, limit), reason, value=value, threshold=limit)
