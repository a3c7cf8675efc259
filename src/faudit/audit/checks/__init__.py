"""The audit: checks measure, a protocol holds the thresholds, the judge decides. It never imports the trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.audit.checks.check import Check

CHECKS: Registry[type[Check]] = Registry(
    "check",
    {
        "scale": "faudit.audit.checks.scale:Scale",
        "reference": "faudit.audit.checks.reference:Reference",
        "stability": "faudit.audit.checks.stability:Stability",
        "depth": "faudit.audit.checks.depth:Depth",
        "feedback": "faudit.audit.checks.feedback:Feedback",
        "null": "faudit.audit.checks.null:Null",
        "movement": "faudit.audit.checks.movement:Movement",
        "rank": "faudit.audit.checks.rank:Rank",
        "controls": "faudit.audit.checks.controls:Controls",
    },
)
