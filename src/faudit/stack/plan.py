"""Which runs are trained as one computation, and how many of them: a rule from measured times.

A step of a small net spends most of its time between its operations, not in them. Stacked runs share that time. The
products of a large net take the time of the step, and stacking them gains nothing. Measured on two cores, both ways in
turns: `benchmarks/stack_rule.py`. docs/sweeps.md has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from faudit.config import RunConfig
from faudit.errors import ConfigError

NETS = ("resmlp", "mlp")
RULES = ("bp", "dfa", "fa", "frozen-bp", "frozen-dfa", "frozen-fa")
DIFFER = ("seed", "lr", "weight_decay", "penalty")  # settings in which the runs of a stack may differ
LARGEST = 20_000_000  # multiplications of one pass of a batch through the blocks: above this, stacking gains little
WEIGHTS = 2_100_000  # numbers of all blocks of a stack: with more, they leave the processor's cache between two uses
MOST = 16  # runs of a stack: from here on, a larger one gains nothing
ENOUGH = 8  # runs of a stack from which on a larger one gains less than a worker that waits at the end loses

Key = tuple[object, ...]


def key_of(config: RunConfig) -> Key | None:
    """What the runs of a stack share; None if the run cannot be stacked."""
    if config.own or config.net not in NETS or config.rule not in RULES:
        return None
    if config.net == "mlp" and (config.criterion != "ce" or config.dropout or config.batch_norm):
        return None
    if config.amp != "none" or config.compile or config.settings.get("block_decay"):
        return None
    if config.device == "cpu" and config.threads != 1:  # products on several threads are cut by how many there are
        return None
    shared = ((name, value) for name, value in config.settings.items() if name not in DIFFER)
    return (*shared, config.penalty > 0.0)


def weights_of(config: RunConfig) -> int:
    """The weights of the blocks; of an MLP without the first layer, whose size the data decides."""
    if config.net == "resmlp":
        return 2 * int(config.depth) * int(config.width) ** 2
    return sum(a * b for a, b in pairwise((config.sizes[0], *config.sizes)))


def width_of(config: RunConfig) -> int:
    """How many runs like this one are best trained as one computation; 1 if each is best trained alone."""
    weights = weights_of(config)
    if weights * config.batch_size > LARGEST:
        return 1
    return max(4, min(MOST, WEIGHTS // weights))


def parsed(text: str | None) -> int | None:
    """The most runs of a stack from ``--stack``: None for auto, 1 for off."""
    if text in (None, "auto"):
        return None
    if text == "off":
        return 1
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ConfigError(f"--stack: expected auto, off or a whole number ≥ 1, got {text!r}.")


def grouped(configs: Sequence[RunConfig], *, jobs: int, most: int | None = None) -> list[list[RunConfig]]:
    """The runs in groups, each for one worker. No worker is left idle for the sake of a larger stack.

    ``most`` is the size of a stack that the user asks for. The groups are in the order of their first runs.
    """
    fair = -(-len(configs) // jobs)
    alike: dict[Key, list[RunConfig]] = {}
    for config in configs:
        alike.setdefault(key_of(config) or (config.run_id,), []).append(config)
    groups = []
    for runs in alike.values():
        if len(runs) == 1:
            groups.append(runs)
            continue
        limit = min(fair, width_of(runs[0]) if most is None else most)
        count = -(-len(runs) // limit)  # stacks, as equal as possible
        shared = -(-count // jobs) * jobs  # as many for each worker
        if most is None and len(runs) >= ENOUGH * shared:
            count = shared
        groups += [runs[len(runs) * k // count : len(runs) * (k + 1) // count] for k in range(count)]
    place = {config.run_id: index for index, config in enumerate(configs)}
    return sorted(groups, key=lambda group: place[group[0].run_id])
