"""Learning rules, one file each with the interface of ``rules.rule.Rule``, and the control of each rule.

The control of a rule ``x`` is ``frozen-x``: the same rule with blocks that never train. ``rules.frozen.frozen`` derives
it from the rule on first use, so the table below lists only the rules. The control of an own rule
``package.module:Name`` is ``frozen-package.module:Name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from faudit.errors import ConfigError
from faudit.registry import declared
from faudit.settings import Configurable, Settings

if TYPE_CHECKING:
    from faudit.rules.rule import Rule

FROZEN = "frozen-"

# What a rule needs that backprop does not, or that a brain or chip may lack.
Need = Literal[
    "weight transport", "global error", "labels", "second forward pass", "second phase", "auxiliary net", "noise phase"
]


@dataclass(frozen=True)
class Card:
    """The method card of a rule: one or two plain sentences each; formulas are Unicode, as in the docstrings."""

    title: str
    formula: str
    reference: str
    stores: str
    needs: tuple[Need, ...]
    cost: str
    fails: str  # the known failure


class Rules(Configurable["type[Rule]"]):
    """The rules of a table, and the control of each rule. A control has the settings of its rule."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        frozen = {FROZEN + name: target for name, target in targets.items()}
        super().__init__("rule", {**targets, **frozen}, contract="faudit.rules.rule:Rule")

    def own_name(self, name: str) -> str:
        return name.removeprefix(FROZEN)

    def must_be_member(self, found: Any, what: str) -> None:
        super().must_be_member(found, what)
        from faudit.rules.rule import Rule

        if found.credit is Rule.credit and found.no_credit is None:
            raise ConfigError(f"{what} is not complete: expected credit() or the reason no_credit, got neither")

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of the controls."""
        return tuple(name for name in self if name == control_name(name))

    @property
    def declaring(self) -> tuple[str, ...]:
        return tuple(name for name in self if name not in self.controls)

    def settings(self, name: str) -> Settings:
        return super().settings(name.removeprefix(FROZEN))

    def __getitem__(self, name: str) -> type[Rule]:
        kind = super().__getitem__(name)
        if name != control_name(name):
            return kind
        from faudit.rules.frozen import frozen

        return frozen(kind)

    def card(self, name: str) -> Card:
        """The method card of a rule, read from its source without importing it; a control has the card of its rule."""
        try:
            card: Card = declared(self.source(name)[1], "card", Card)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the rule {name!r}: expected its class to declare `card` as literals, got {error}"
            ) from None
        return card

    def summary(self, name: str) -> str:
        if name != control_name(name):
            return super().summary(name)
        return f"Blocks frozen at init, embedding taught by {name.removeprefix(FROZEN)}."


def control_name(rule: str) -> str:
    """The name of a rule's control; a control is its own control."""
    return FROZEN + rule.removeprefix(FROZEN)


RULES = Rules(
    {
        "bp": "faudit.rules.bp:BP",
        "fa": "faudit.rules.fa:FA",
        "dfa": "faudit.rules.dfa:DFA",
        "fa-weights": "faudit.rules.fa_weights:FAWeights",
        "sign-symmetry": "faudit.rules.sign_symmetry:SignSymmetry",
        "kolen-pollack": "faudit.rules.kolen_pollack:KolenPollack",
        "weight-mirror": "faudit.rules.weight_mirror:WeightMirror",
        "dfa-layers": "faudit.rules.dfa_layers:DFALayers",
        "sdfa": "faudit.rules.sdfa:SDFA",
        "drtp": "faudit.rules.drtp:DRTP",
        "dkp": "faudit.rules.dkp:DKP",
        "local-loss": "faudit.rules.local_loss:LocalLoss",
        "pepita": "faudit.rules.pepita:Pepita",
        "forward-forward": "faudit.rules.forward_forward:ForwardForward",
        "ep": "faudit.rules.ep:EP",
        "state-bridge": "faudit.rules.state_bridge:StateBridge",
        "credit-bridge": "faudit.rules.credit_bridge:CreditBridge",
        "placebo": "faudit.rules.placebo:Placebo",
    }
)
