"""The claims: the order of the test errors, and the distance of DFA from BP."""

from __future__ import annotations

from faudit.papers.claim import Between, Claim, Order, full_error, last

ERROR = last(full_error)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "test error: BP < FA < DFA",
        "1.48 < 1.85 < 2.75 %",
        (Order("error", ("BP", "FA", "DFA"), ERROR, "error", (1.48, 1.85, 2.75)),),
    ),
    Claim(
        "test error: DFA − BP",
        "1.27 pp",
        (Between("DFA − BP", "DFA", ERROR, "error", 1.0, 1.6, minus="BP", published=1.27),),
    ),
)
