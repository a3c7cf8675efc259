"""Scale: does one block blow the stream up? max_l ‖h_{l+1}‖ / ‖h_l‖ at the end, against a threshold.

Per block and not over the whole depth, because a ViT's class token starts tiny. A stream that explodes behind a
LayerNorm is hidden from the loss, not from this.
"""

from __future__ import annotations

from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_most
from faudit.audit.protocol import Protocol
from faudit.store.rows import growth


class Scale(Check):
    """The largest growth of one block."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        value, limit = growth(case.last.get("hidden_norms") or []), protocol.growth
        if value is None:
            return Finding("scale", NOT_MEASURED, "no hidden norms at every tap", threshold=limit)
        reason = f"the largest growth of one block is {value:.3g}×, the limit {limit:g}×"
        return Finding("scale", at_most(value, limit), reason, value=value, threshold=limit)
