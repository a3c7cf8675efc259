"""Scale: does one block blow the stream up? max_l ‖h_{l+1}‖ / ‖h_l‖ at the end, against a threshold.

Per block and not over the whole depth, because a ViT's class token starts tiny. A stream that explodes behind a
LayerNorm is hidden from the loss, not from this.
"""

from __future__ import annotations

from faudit.audit.check import FIRED, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.audit.protocol import Protocol
from faudit.rows import growth


class Scale(Check):
    """The largest growth of one block."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        grown = [(row["epoch"], growth(row.get("hidden_norms") or [])) for row in case.rows]
        value, limit = grown[-1][1], protocol.growth
        first = next((epoch for epoch, one in grown if one is not None and one > limit), None)
        if value is None:
            return Finding("scale", NOT_MEASURED, "no hidden norms at every tap", threshold=limit, first_fire=first)
        status = FIRED if value > limit else PASSED
        reason = f"the largest growth of one block is {value:.3g}×, the limit {limit:g}×"
        return Finding("scale", status, reason, value=value, threshold=limit, first_fire=first)
