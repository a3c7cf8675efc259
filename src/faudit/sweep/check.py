"""Check every run of a study before the first one starts.

The check builds the parts of each run to find settings that nothing reads, shapes that do not fit, nets that a rule
cannot train, and missing data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from faudit.config import RunConfig, needs_files
from faudit.data.batches import Batches
from faudit.errors import ConfigError, DataError
from faudit.experiment import build_net, build_rule, refuse_pair, refuse_unused, usable
from faudit.own_members import registry_of
from faudit.store.run import Run
from faudit.sweep.engine import loaded
from faudit.train import must_be_trained_on


def refuse(configs: Sequence[RunConfig], *, data_dir: Path | None, elsewhere: bool) -> None:
    """Raise one error that lists every problem of the runs once.

    ``elsewhere`` is true if the engine's workers may have data and devices that this machine does not have.
    """
    problems: dict[str, list[str]] = {}

    def tell(error: Exception, config: RunConfig) -> None:
        for line in str(error).splitlines():
            problems.setdefault(line, []).append(config.run_id)

    by_data: dict[str, dict[tuple[object, ...], RunConfig]] = {}
    for config in configs:
        try:
            refuse_unused(config)
            for family in config.own:
                registry_of(family)[getattr(config, family)]  # it must be there, and be a member
            if not elsewhere:
                usable(config.device)
        except ConfigError as error:
            tell(error, config)
            continue
        by_data.setdefault(config.data, {}).setdefault(shape(config), config)
    for name, shapes in by_data.items():
        try:
            dataset = loaded(name, data_dir)
        except DataError as error:
            if not elsewhere:
                tell(error, next(iter(shapes.values())))
            continue
        for config in shapes.values():
            try:
                net = build_net(config, dataset)
                refuse_pair(config, dataset, net=net, rule=build_rule(config, net))
                Batches(dataset, config.batch_size, True, False, torch.float32, torch.device("cpu"))
            except (ConfigError, DataError) as error:
                tell(error, config)
    loaded.cache_clear()  # the workers load their own copy
    if problems:
        raise ConfigError("\n".join(f"{line} ({place(ids)})" for line, ids in problems.items()))


def refuse_other_data(configs: Sequence[RunConfig], runs: Path, *, data_dir: Path) -> list[str]:
    """Raise if a finished run was trained on other data than ``data_dir`` holds. Returns remarks on unreadable data."""
    by_data: dict[str, list[Run]] = {}
    for config in configs:
        run = Run(runs / config.run_id)
        if needs_files(config) and run.status in ("done", "failed"):
            by_data.setdefault(config.data, []).append(run)
    remarks = []
    for name, finished in by_data.items():
        try:
            dataset = loaded(name, data_dir)
        except DataError as error:
            remarks.append(f"{len(finished)} runs on {name} are finished, whatever {data_dir} holds: {error}")
            continue
        for run in finished:
            must_be_trained_on(run, dataset, data_dir=data_dir)
    loaded.cache_clear()
    return remarks


def shape(config: RunConfig) -> tuple[object, ...]:
    """The settings that decide whether a net and its batches fit a dataset, and whether the rule can train the net."""
    own = (*config.settings_of("net").values(), *config.settings_of("rule").values())
    return (config.net, config.rule, config.batch_size, config.train_last, config.random_targets, *own)


def place(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
