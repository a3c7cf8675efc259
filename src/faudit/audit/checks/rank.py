"""Rank: do different samples have different gradients, or is the reference one direction?

The effective rank of the samples' gradient directions at the tap where it is least. At rank 1 every sample pulls along
one line, and a cosine with it says the same thing of all. Behind a linear head with C classes the rank is at most
C − 1, so nothing is asked of a network with fewer than four, nor of one whose outputs are no classes.
"""

from __future__ import annotations

from faudit.audit.checks.check import NOT_APPLICABLE, NOT_MEASURED, Case, Check, Finding, at_least
from faudit.audit.protocol import Protocol

CLASSES = 4


class Rank(Check):
    """The least effective rank of the reference."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.rank
        assert limit is not None, "a protocol that asks has one"
        if case.classes < CLASSES:
            return Finding(
                "rank", NOT_APPLICABLE, "with fewer than four classes the gradients span few directions anyway"
            )
        ranks = case.last.get("reference_rank")
        if not ranks or any(rank is None for rank in ranks):
            return Finding("rank", NOT_MEASURED, "the rank of the reference was not measured", threshold=limit)
        value = min(ranks)
        reason = f"the samples' gradients span {value:.2g} directions at tap {ranks.index(value)}, needed {limit:g}"
        return Finding("rank", at_least(value, limit), reason, value=value, threshold=limit)
