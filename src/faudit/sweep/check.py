"""What only the parts of a run know is wrong with it: settings nobody reads, shapes that do not fit, data that is not
there; asked of every run of a study before the first one starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from faudit.config import SETTINGS, RunConfig
from faudit.data.batches import Batches
from faudit.errors import ConfigError, DataError
from faudit.experiment import build_net, refuse_unused
from faudit.sweep.engine import loaded


def refuse(configs: Sequence[RunConfig], *, data_dir: Path | None, data_elsewhere: bool) -> None:
    """Refuse a study for everything wrong with its runs, each thing told once; ``data_elsewhere`` is an engine's whose
    workers may have data that is not here.
    """
    problems: dict[str, list[str]] = {}

    def tell(error: Exception, config: RunConfig) -> None:
        for line in str(error).splitlines():
            problems.setdefault(line, []).append(config.run_id)

    by_data: dict[str, dict[tuple[object, ...], RunConfig]] = {}
    for config in configs:
        try:
            refuse_unused(config)
        except ConfigError as error:
            tell(error, config)
            continue
        by_data.setdefault(config.data, {}).setdefault(shape(config), config)
    for name, shapes in by_data.items():
        try:
            dataset = loaded(name, data_dir)
        except DataError as error:
            if not data_elsewhere:
                tell(error, next(iter(shapes.values())))
            continue
        for config in shapes.values():
            try:
                build_net(config, dataset)
                Batches(dataset, config.batch_size, True, False, torch.float32, torch.device("cpu"))
            except (ConfigError, DataError) as error:
                tell(error, config)
    loaded.cache_clear()  # the workers have their own
    if problems:
        raise ConfigError("\n".join(f"{line} ({place(ids)})" for line, ids in problems.items()))


def shape(config: RunConfig) -> tuple[object, ...]:
    """What decides whether a net and its batches can be made of a dataset."""
    names = [name for name in SETTINGS if SETTINGS[name]["of"] == "net"]
    return (config.net, config.batch_size, *(getattr(config, name) for name in names))


def place(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
