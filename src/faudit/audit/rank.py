"""Rank: do different samples have different gradients, or is the reference one direction?

The effective rank of the samples' gradient directions at the tap where it is least. At rank 1 every sample pulls along
one line, and a cosine with it says the same thing of all. With two classes that is as it must be, so it is not asked.
"""

from __future__ import annotations

from faudit.audit.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, Case, Check, Finding
from faudit.audit.protocol import Protocol


class Rank(Check):
    """The least effective rank of the reference."""

    def find(self, case: Case, protocol: Protocol) -> Finding:
        limit = protocol.rank
        if case.classes == 2:
            return Finding("rank", NOT_APPLICABLE, "with two classes every gradient lies along one line")
        ranks = case.last.get("reference_rank")
        if not ranks or any(rank is None for rank in ranks):
            return Finding("rank", NOT_MEASURED, "the rank of the reference was not measured", threshold=limit)
        value = min(ranks)
        reason = f"the samples' gradients span {value:.2g} directions at tap {ranks.index(value)}, needed {limit:g}"
        return Finding("rank", FIRED if value < limit else PASSED, reason, value=value, threshold=limit)
