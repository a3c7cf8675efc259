"""Independent named random generators, all derived from one seed.

``init`` draws the weights, ``feedback`` the feedback matrices, ``data`` the order and augmentation, ``targets`` random
labels, ``dropout`` the masks of a net, ``step`` what a rule draws while it trains. Drawing from one generator does not
affect the others, so two rules with the same seed share weights and batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

NAMES = ("init", "feedback", "data", "targets", "dropout", "step")


def generators(seed: int) -> dict[str, torch.Generator]:
    """One CPU generator for each name, each with its own seed.

    >>> one, other = generators(3), generators(3)
    >>> _ = torch.rand(1000, generator=one["data"])
    >>> torch.equal(torch.rand(5, generator=one["init"]), torch.rand(5, generator=other["init"]))
    True
    """
    return {name: torch.Generator().manual_seed(derived(seed, name)) for name in NAMES}


def derived(seed: int, name: str) -> int:
    """The seed of one generator: 63 bits of SHA-256 over seed and name.

    >>> derived(42, "init")
    6742761615694275909
    """
    digest = hashlib.sha256(f"faudit:{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def states(named: Mapping[str, torch.Generator]) -> dict[str, Tensor]:
    """The state of every generator, as tensors."""
    return {name: generator.get_state() for name, generator in named.items()}


def restore(named: Mapping[str, torch.Generator], saved: Mapping[str, Tensor]) -> None:
    """Restore the state of every generator that was saved."""
    for name in named.keys() & saved.keys():
        named[name].set_state(saved[name].to(torch.uint8))
