"""Movement: has every block been trained at all?

The least angle by which a weight matrix of a block has turned from where it began. A block that was left out of the
update, clipped to nothing, dead or saturated has one that did not turn, however well the embedding and the head do.
"""

from __future__ import annotations

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least
from faudit.audit.protocol import Protocol
from faudit.store.rows import Row


class Movement(Check):
    """The least turn of a block's matrices."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.turn
        assert limit is not None, "a protocol that asks has one"
        if case.is_frozen:
            return Finding("movement", NOT_APPLICABLE, "its own blocks are frozen", threshold=limit)
        if case.config is None:
            return Finding("movement", NOT_APPLICABLE, "a model alone does not say where it began", threshold=limit)
        found = least(case.last)
        if found is None:
            return Finding("movement", NOT_MEASURED, "where its weights began is not known", threshold=limit)
        block, value = found
        reason = f"a matrix of block {block} has turned by sin∠ = {value:.2g} since it began, needed {limit:g}"
        return Finding("movement", at_least(value, limit), reason, value=value, threshold=limit)


def least(row: Row) -> tuple[int, float] | None:
    """The block that turned least, and by how much."""
    turns = row.get("block_turn")
    if not turns or any(turn is None for turn in turns):
        return None
    return min(enumerate(turns), key=lambda pair: float(pair[1]))
