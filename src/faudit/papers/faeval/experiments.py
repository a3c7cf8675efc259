"""The published study as a table of arms: the configurations of its figures, claims and files.  (no torch)

An arm is a configuration without a seed. A plan says on which data, for how many epochs and with which seeds the arms
are run; its defaults are the full recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faudit.config import RunConfig

MAIN, MATCHED, SYNTHETIC = 100, 30, 80  # epochs: main runs, penalty runs and their controls, teacher–student
PROBED = {"probe_epochs": (1,)}  # ρ and fresh feedback "early" and, always then, at the end
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)

ARMS: dict[str, dict[str, Any]] = {
    **{f"resmlp {rule}": {"rule": rule, "epochs": MAIN} for rule in ("bp", "fa", "dfa", "frozen-dfa")},
    **{f"noln {rule}": {"rule": rule, "epochs": MAIN, "no_terminal_norm": True} for rule in ("bp", "fa", "dfa")},
    **{f"vit {rule}": {"rule": rule, "epochs": MAIN, "net": "vit", "width": 128} for rule in ("bp", "fa", "dfa")},
    **{
        f"student {rule}": {"rule": rule, "epochs": SYNTHETIC, "net": "student", "width": 128, "data": "teacher"}
        for rule in ("bp", "fa", "dfa")
    },
    "matched bp": {"rule": "bp", "epochs": MATCHED, **PROBED},
    "matched dfa": {"rule": "dfa", "epochs": MATCHED, **PROBED},
    "matched frozen-dfa": {"rule": "frozen-dfa", "epochs": MATCHED},
    "matched bp λ=0.01": {"rule": "bp", "epochs": MATCHED, "penalty": 1e-2},
    **{
        f"matched dfa λ={value:g}": {"rule": "dfa", "epochs": MATCHED, "penalty": value, **PROBED}
        for value in PENALTIES
    },
}

# Small data wants small sizes: with these the digits tell the same story in seconds.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "digits": {"resmlp": {"batch_size": 32, "width": 128}, "vit": {"batch_size": 32, "patch": 2}},
}


@dataclass(frozen=True)
class Plan:
    """Which data, how long, which seeds; ``epochs`` None means as long as the study."""

    data: str = "cifar10"
    epochs: int | None = None
    seeds: tuple[int, ...] = (42, 123, 456)

    def config(self, arm: str, seed: int | None = None) -> RunConfig:
        """The run of an arm with a seed (the first, where it does not matter)."""
        settings = {"data": self.data, "seed": self.seeds[0] if seed is None else seed, **ARMS[arm]}
        if self.epochs is not None:
            settings["epochs"] = self.epochs
        net = settings.setdefault("net", "resmlp")
        return RunConfig(**{**settings, **SIZES.get(settings["data"], {}).get(net, {})})

    def to_json(self) -> dict[str, Any]:
        """The plan as results carry it."""
        return {"data": self.data, "epochs": self.epochs, "seeds": list(self.seeds)}

    @property
    def is_full(self) -> bool:
        """Whether this is the study's own recipe and not a rehearsal of it."""
        return self.data == "cifar10" and self.epochs is None
