"""The audit: checks measure, a protocol holds the thresholds, the judge decides. It never imports the trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.audit.check import Check

CHECKS: Registry[type[Check]] = Registry(
    "check",
    {
        "scale": "faudit.audit.scale:Scale",
        "reference": "faudit.audit.reference:Reference",
        "stability": "faudit.audit.stability:Stability",
        "depth": "faudit.audit.depth:Depth",
        "feedback": "faudit.audit.feedback:Feedback",
        "null": "faudit.audit.null:Null",
        "movement": "faudit.audit.movement:Movement",
        "rank": "faudit.audit.rank:Rank",
        "controls": "faudit.audit.controls:Controls",
    },
)
