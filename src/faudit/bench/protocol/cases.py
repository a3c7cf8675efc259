"""The cases of the benchmark: each network, whether it is healthy, and the reason for this label.

Healthy means that the blocks are trained with the true gradient and were not changed. Broken means that something was
changed. All cases use the shipped digits. The list was fixed before the thresholds of movement and rank were examined.
The one exception is "reference lost": it was added last, and no threshold was changed for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faudit.config import RunConfig

if TYPE_CHECKING:
    from faudit.experiment import Experiment


SET, REPORT = "set", "report"


@dataclass(frozen=True)
class Planted:
    """One case: a configuration, and the change made to the experiment before training."""

    healthy: bool
    why: str
    config: RunConfig
    plant: str = ""  # the name of a function or rule in ``faults``; empty if the configuration is enough

    def planted(self, experiment: Experiment) -> Experiment:
        """The experiment with the planted change, if there is one."""
        from faudit.bench.protocol import faults
        from faudit.rules.rule import Rule

        if not self.plant:
            return experiment
        found: Any = getattr(faults, self.plant)
        plant: Callable[[Experiment], Experiment] = (
            faults.taught_by(found) if isinstance(found, type) and issubclass(found, Rule) else found
        )
        return plant(experiment)


def on_digits(**settings: Any) -> RunConfig:
    """A configuration for the digits: by default a ResMLP, 30 epochs."""
    usual: dict[str, Any] = {"epochs": 30, "batch_size": 32}
    usual |= {"width": 128} if settings.get("net") != "cnn" else {}
    usual |= {"patch": 2} if settings.get("net") == "vit" else {}
    return RunConfig(**{**usual, **settings})


def sound(**settings: Any) -> Planted:
    return Planted(True, "trained with the true gradient", on_digits(**settings))


def broken(why: str, plant: str = "", **settings: Any) -> Planted:
    return Planted(False, why, on_digits(**settings), plant)


def half(name: str) -> str:
    """The half of a kind: thresholds may be set on "set" kinds; results are reported on "report" kinds.

    Every kind of ``SEEN`` was looked at while thresholds were set. Of the others, a hash of the name sends one in three
    to the same half. This rule was written down before the other kinds were trained or even listed.
    """
    return SET if name in SEEN or hashlib.sha256(name.encode()).digest()[0] % 3 == 0 else REPORT


SEEN: dict[str, Planted] = {
    "bp": sound(),
    "bp vit": sound(net="vit", epochs=10),
    "bp cnn": sound(net="cnn", epochs=10),
    "bp student": sound(net="student"),
    "bp deep": sound(depth=16),
    "bp wide": sound(width=512),
    "bp well fitted": sound(batch_size=16, epochs=60),
    "bp penalty": sound(penalty=1e-2),
    "bp no terminal norm": sound(no_terminal_norm=True),
    "bp vit, 1 epoch": sound(net="vit", epochs=1),
    "bp vit, 2 epochs": sound(net="vit", epochs=2),
    "bp sgd": sound(optimizer="sgd", lr=0.1, momentum=0.9),
    "weight transport": Planted(True, "B = Wᵀ at every step", on_digits(), "WeightTransport"),
    "exploded by its weights": broken("one branch is ten million times as long", "exploded"),
    "exploded by its rate": broken("DFA at ten times the rate", rule="dfa", lr=1e-2),
    "blocks never train": broken("blocks are left out of the update", "BlocksLeftOut", rule="dfa"),
    "blocks never train (bp)": broken("blocks are left out of the update", "BlocksLeftOutBP"),
    "feedback never used": broken("teaches with the gradient instead", "FeedbackUnused", rule="dfa"),
    "feedback redrawn": broken("new feedback at every step", "FeedbackRedrawn", rule="dfa"),
    "sign flipped": broken("the gradient with the wrong sign", "Flipped", rule="dfa"),
    "sign flipped (fa)": broken("FA's error with the wrong sign", "FlippedFA", rule="fa"),
    "random targets": broken("fresh uniform labels", random_targets=True),
    "random targets (dfa)": broken("fresh uniform labels", rule="dfa", random_targets=True),
    "one dead block": broken("no unit of block 1 ever fires", "dead_block"),
    "saturated units": broken("every tanh sits at ±1", "saturated", net="student"),
    "one direction": broken("the head has rank one", "one_direction", no_terminal_norm=True),
    "reference lost": broken("float32's steps are as large as the states", "offset"),
    "embedding only": broken("the blocks' update is clipped to nothing", rule="dfa", clip=1e-12),
    "dfa as published": broken("the paper's DFA", rule="dfa"),
    "dfa as published, deep": broken("the paper's DFA, 8 blocks", rule="dfa", depth=8),
}

CASES: dict[str, Planted] = {**SEEN}
