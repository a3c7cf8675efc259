"""Learning rules: one file each, all with the face of ``rules.rule.Rule``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faudit.registry import Registry

if TYPE_CHECKING:
    from faudit.rules.rule import Rule

RULES: Registry[type[Rule]] = Registry(
    "rule",
    {
        "bp": "faudit.rules.bp:BP",
        "fa": "faudit.rules.fa:FA",
        "dfa": "faudit.rules.dfa:DFA",
        "frozen-dfa": "faudit.rules.frozen:FrozenDFA",
        "frozen-fa": "faudit.rules.frozen:FrozenFA",
        "frozen-bp": "faudit.rules.frozen:FrozenBP",
    },
)
