"""The claim: the test error at the end."""

from __future__ import annotations

from faudit.papers.claim import Between, Claim, full_error, last

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "test error",
        "1.36 % (paper), 1.45 % (reproduction)",
        (Between("error", "forward-forward", last(full_error), "error", 1.3, 1.7, published=1.36),),
    ),
)
