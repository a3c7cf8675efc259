"""Checks: one file each, all with the interface of ``checks.check.Check``. A protocol is a set of checks."""

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
        "floor": "faudit.audit.checks.floor:Floor",
        "rank": "faudit.audit.checks.rank:Rank",
        "depth": "faudit.audit.checks.depth:Depth",
        "paired": "faudit.audit.checks.paired:Paired",
        "points": "faudit.audit.checks.points:Points",
        "movement": "faudit.audit.checks.movement:Movement",
        "feedback": "faudit.audit.checks.feedback:Feedback",
        "null": "faudit.audit.checks.null:Null",
        "controls": "faudit.audit.checks.controls:Controls",
        "chance": "faudit.audit.checks.chance:Chance",
        "blocks": "faudit.audit.checks.blocks:Blocks",
        "samples": "faudit.audit.checks.samples:Samples",
        "swap": "faudit.audit.checks.swap:Swap",
        "stability": "faudit.audit.checks.stability:Stability",
    },
)
