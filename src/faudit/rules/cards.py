"""Method cards: what a rule computes, stores, needs and costs, as text or Markdown; generated from the rule's file.

The cost per step against BP is measured: ``faudit bench rules --out FILE`` writes ``costs.json`` beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from faudit.rules import RULES, control_name

COSTS = Path(__file__).with_name("costs.json")


@cache
def costs() -> Mapping[str, Any]:
    """The measured costs of the rules on each net; empty if none were kept."""
    found: Mapping[str, Any] = json.loads(COSTS.read_text(encoding="utf-8")) if COSTS.exists() else {}
    return found


def measured_cost(name: str) -> str:
    """Seconds per step over those of BP, on each net that was timed."""
    nets: Mapping[str, Any] = costs().get("nets", {})
    found = [f"{timed[name]['ratio']:.2f} × BP on {net}" for net, timed in nets.items() if name in timed]
    return ", ".join(found) or "not measured"


def card(name: str) -> dict[str, str]:
    """The card of a rule by heading."""
    own = RULES.card(name)
    settings = RULES.settings(name)
    return {
        "rule": name,
        "method": own.title,
        "formula": own.formula,
        "reference": own.reference,
        "stores": own.stores,
        "needs": ", ".join(own.needs) or "nothing beyond a forward pass",
        "cost": f"{own.cost} (measured per step: {measured_cost(name)})",
        "known failure": own.fails,
        "settings": "; ".join(f"--{flag(at)}: {one.help} (default {one.default})" for at, one in settings.items())
        or "none",
        "control": control_name(name),
    }


def flag(attribute: str) -> str:
    """The flag of a setting, without its dashes."""
    return attribute.replace("_", "-")


def text(name: str) -> str:
    """The card of a rule for the terminal."""
    entries = card(name)
    wide = max(map(len, entries)) + 2
    return "\n".join(f"{heading:<{wide}}{value}" for heading, value in entries.items())


def markdown(name: str) -> str:
    """The card of a rule for the documentation."""
    entries = card(name)
    lines = [f"- **{heading}**: {value}" for heading, value in entries.items() if heading not in ("rule", "method")]
    return "\n".join([f"## `{name}`: {entries['method']}", "", *lines, ""])
