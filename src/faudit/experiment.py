"""Build the parts of a run from its configuration: net, rule, weights, feedback, optimizer and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.data.batches import Batches
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.nets import NETS
from faudit.nets.net import Net, is_buffer
from faudit.rng import generators
from faudit.rules import RULES
from faudit.rules.rule import Group, Rule
from faudit.store.checkpoint import Optimizers, TrainState

OPTIMIZERS: dict[str, tuple[Any, set[str]]] = {  # the class, and the optimizer settings that it reads
    "adamw": (torch.optim.AdamW, set()),
    "sgd": (torch.optim.SGD, {"momentum"}),
}


@dataclass(frozen=True)
class Experiment:
    """A configuration with the parts that were built from it."""

    config: RunConfig
    dataset: Dataset
    net: Net
    rule: Rule
    batches: Batches
    state: TrainState
    initial: Mapping[str, Tensor]  # the weights before the first step


def prepare(config: RunConfig, dataset: Dataset) -> Experiment:
    """Build an experiment as it is before the first step; writes no files."""
    net, rule = build_net(config, dataset), build_rule(config)
    dtype, device = getattr(torch, config.dtype), usable(config.device)
    named = generators(config.seed)
    if reason := rule.refusal(net):
        raise ConfigError(f"rule {config.rule} cannot train net {config.net}: {reason}. Take another --net or --rule.")
    smallest = len(dataset.train_x) % config.batch_size or config.batch_size
    if smallest < net.least_batch:
        raise ConfigError(
            f"batch-size: net {config.net} has a BatchNorm and needs at least {net.least_batch} samples in every batch, "
            f"got {smallest} in the last of {len(dataset.train_x)} samples. Take another --batch-size."
        )
    params = {name: value.to(device, dtype) for name, value in net.init(named["init"]).items()}
    sample = dataset.normalise(dataset.train_x[:2])
    state = {
        name: value.to(device, dtype if value.is_floating_point() else value.dtype)
        for name, value in rule.init(net, sample, named["feedback"]).items()
    }
    for name, value in (*params.items(), *state.items()):
        value.requires_grad_(rule.trains_state(name) if name in state else not is_buffer(name))
    batches = Batches(
        dataset,
        batch_size=config.batch_size,
        augment=not config.no_augment,
        random_targets=config.random_targets,
        dtype=dtype,
        device=device,
    )
    held = TrainState(params, state, build_optimizer(config, rule, {**params, **state}), named)
    initial = {name: value.detach().clone() for name, value in params.items()}
    return Experiment(config, dataset, net, rule, batches, held, initial)


def refuse_unused(config: RunConfig) -> None:
    """Refuse settings that this net, rule or optimizer does not read; lists all of them at once."""
    problems = [
        *config.unused_settings("net", names_of(NETS[config.net]), member=f"net {config.net}"),
        *config.unused_settings("rule", names_of(RULES[config.rule]), member=f"rule {config.rule}"),
        *config.unused_settings("optimizer", OPTIMIZERS[config.optimizer][1], member=f"optimizer {config.optimizer}"),
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def names_of(kind: type[Net] | type[Rule]) -> set[str]:
    """The fields of a net or rule, which are the settings that it reads."""
    return {entry.name for entry in fields(kind)}


def build_net(config: RunConfig, dataset: Dataset) -> Net:
    kind = NETS[config.net]
    return kind(dataset.sample_shape, dataset.classes, **config.settings_of("net", names_of(kind)))


def build_rule(config: RunConfig) -> Rule:
    kind = RULES[config.rule]
    return kind(**config.settings_of("rule", names_of(kind)))


def build_optimizer(config: RunConfig, rule: Rule, tensors: Mapping[str, Tensor]) -> Optimizers:
    """The optimizers of the tensors that require grad: the run's own, and that of each group of the rule.

    An optimizer skips a tensor without a gradient (that of a frozen block), weight decay too.
    """
    trained = {name: value for name, value in tensors.items() if value.requires_grad}
    groups = rule.groups(trained)
    apart = {name for group in groups for name in group.names}
    rest = Group(tuple(name for name in trained if name not in apart))
    return Optimizers([one_optimizer(config, group, trained) for group in (rest, *groups) if group.names])


def one_optimizer(config: RunConfig, group: Group, tensors: Mapping[str, Tensor]) -> torch.optim.Optimizer:
    """The optimizer of one group; what the group leaves open is the run's."""
    kind, reads = OPTIMIZERS[group.optimizer or config.optimizer]
    optimizer: torch.optim.Optimizer = kind(
        [tensors[name] for name in group.names],
        lr=config.lr if group.lr is None else group.lr,
        weight_decay=config.weight_decay if group.weight_decay is None else group.weight_decay,
        fused=True,
        **config.settings_of("optimizer", reads),
    )
    return optimizer


def usable(device: str) -> torch.device:
    """The device; raises if this machine does not have it."""
    if device.startswith("cuda") and torch.device(device).index not in (None, *range(torch.cuda.device_count())):
        raise ConfigError(f"device: expected one that this machine has, got {device!r}. Use --device cpu.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected one that this machine has, got 'cuda' without CUDA. Use --device cpu.")
    return torch.device(device)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of CPU threads inside the context and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
