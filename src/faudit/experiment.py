"""Build the parts of a run from its configuration: net, rule, weights, feedback, optimizer and batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from faudit.config import RunConfig, must_be_current
from faudit.data.batches import Batches
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.nets import NETS
from faudit.nets.net import Net, is_buffer
from faudit.optimizers import OPTIMIZERS
from faudit.registry import foreign
from faudit.rng import generators
from faudit.rules import RULES
from faudit.rules.compiled import CompiledStep, NotCompiled, compiled
from faudit.rules.frozen import frozen_before
from faudit.rules.rule import Group, Rule, Step
from faudit.store.checkpoint import Optimizers, TrainState


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

    def autocast(self) -> AbstractContextManager[None]:
        """The context of a training step under the setting ``amp``.

        The cache of torch's autocast is off. It keeps a weight that was cast without a graph, and a later pass of the
        same step that needs the gradient of this weight would get none.
        """
        if self.config.amp == "none":
            return nullcontext()
        return torch.autocast(self.batches.device.type, getattr(torch, self.config.amp), cache_enabled=False)

    @cached_property
    def buffer(self) -> tuple[Tensor, Tensor]:
        """The evaluation buffer, moved to the device once."""
        x, y = self.dataset.buffer(self.config.eval_size)
        return x.to(self.batches.device), y.to(self.batches.device)

    @cached_property
    def test_set(self) -> tuple[Tensor, Tensor]:
        """The test set, moved to the device once; it stays on the CPU if the training set does not fit there."""
        return self.dataset.test_x.to(self.batches.home), self.dataset.test_y.to(self.batches.home)

    @cached_property
    def step(self) -> Callable[..., Step]:
        """``rule.step``, or its compiled form if the run asks for it. A warning says why it could not be compiled."""
        if not self.config.compile:
            return self.rule.step
        data, batches, live = self.batches.dataset, self.batches, self.state
        x, y = (part[: batches.batch_size].to(batches.device) for part in (data.train_x, data.train_y))
        try:
            if self.config.amp != "none":
                raise NotCompiled(f"it cannot be combined with --amp {self.config.amp}")
            return compiled(self.rule, self.net, live.params, live.rule_state, data.normalise(x, batches.dtype), y)
        except NotCompiled as reason:
            warnings.warn(f"{self.config.run_id} is trained without --compile: {reason}", stacklevel=2)
            return self.rule.step

    @property
    def facts(self) -> dict[str, str]:
        """How the steps of a run that asks for a compiled step are taken, for its environment."""
        if not self.config.compile:
            return {}
        return {"compile": "compiled" if isinstance(self.step, CompiledStep) else "eager"}


def prepare(config: RunConfig, dataset: Dataset) -> Experiment:
    """Build an experiment as it is before the first step; writes no files."""
    must_be_current(config)
    dataset = dataset.with_pixels(config.pixels)
    net = build_net(config, dataset)
    rule = build_rule(config, net)
    refuse_pair(config, dataset, net=net, rule=rule)
    dtype, device = getattr(torch, config.dtype), usable(config.device)
    named = generators(config.seed)
    samples = min(config.train_size or len(dataset.train_x), len(dataset.train_x))
    rest = 0 if config.drop_last else samples % config.batch_size
    smallest = rest or config.batch_size
    if smallest < net.least_batch:
        raise ConfigError(
            f"batch-size: expected at least {net.least_batch} samples in every batch for the BatchNorm of net "
            f"{config.net}, got {smallest} in the last batch. Take another --batch-size, or --drop-last."
        )
    with started(config, "net"):
        params = {name: value.to(device, dtype).contiguous() for name, value in net.init(named["init"]).items()}
    sample = dataset.normalise(dataset.train_x[:2])
    with started(config, "rule"):
        state = {
            name: value.to(
                "cpu" if rule.on_host(name) else device, dtype if value.is_floating_point() else value.dtype
            ).contiguous()
            for name, value in rule.init(net, sample, named["feedback"]).items()
        }
    for name, value in (*params.items(), *state.items()):
        value.requires_grad_(rule.trains_state(name) if name in state else not is_buffer(name))
    batches = Batches(
        dataset.reduced(config.train_size).with_crop(config.crop),
        batch_size=config.batch_size,
        augment=not config.no_augment,
        shuffle=not config.no_shuffle,
        drop_last=config.drop_last,
        random_targets=config.random_targets,
        dtype=dtype,
        device=device,
    )
    held = TrainState(params, state, build_optimizer(config, rule, {**params, **state}), named)
    initial = {name: value.detach().clone() for name, value in params.items()}
    return Experiment(config, dataset, net, rule, batches, held, initial)


def refuse_unused(config: RunConfig) -> None:
    """Refuse settings that nothing in this run reads; lists all of them at once."""
    if problems := list(config.unused()):
        raise ConfigError("\n".join(problems))


def refuse_pair(config: RunConfig, dataset: Dataset, *, net: Net, rule: Rule) -> None:
    """Refuse a net that the rule cannot train, and targets that one of them cannot use."""
    with started(config, "rule"):
        reason = rule.refusal(net)
    if reason:
        raise ConfigError(f"rule {config.rule} cannot train net {config.net}: {reason}. Take another --net or --rule.")
    if config.amp != "none" and rule.no_amp is not None:
        raise ConfigError(f"rule {config.rule} cannot train with amp {config.amp}: {rule.no_amp}. Leave --amp out.")
    refuse_vectors(config, dataset, net=net, rule=rule)


@contextmanager
def started(config: RunConfig, family: str) -> Iterator[None]:
    """Start a member of a run. What an own member raises becomes an error of one line; in ours it is a bug."""
    if family not in config.own:
        yield
        return
    with foreign(f"{family} {config.own[family].name} cannot be started"):
        yield


def refuse_vectors(config: RunConfig, dataset: Dataset, *, net: Net, rule: Rule) -> None:
    """Refuse a net, rule or setting that needs classes if the targets of the dataset are vectors."""
    if dataset.classes:
        return
    vectors = f"data {config.data}, whose targets are vectors"
    if not net.fits_vectors:
        raise ConfigError(
            f"the loss of net {config.net}: expected classes, got {vectors}. Take --net mlp --criterion mse."
        )
    if rule.no_vectors is not None:
        problem = f"rule {config.rule}: expected classes, because {rule.no_vectors}, got {vectors}"
        raise ConfigError(f"{problem}. Take another --rule or --data.")
    if config.random_targets:
        raise ConfigError(f"random-targets: expected classes, got {vectors}. Leave it out.")


def build_net(config: RunConfig, dataset: Dataset) -> Net:
    return net_for(config, dataset.sample_shape, dataset.outputs)


def net_for(config: RunConfig, sample_shape: tuple[int, ...], outputs: int) -> Net:
    """The net of a run for samples of a shape."""
    kind = NETS[config.net]
    with started(config, "net"):
        return kind(sample_shape, outputs, **config.settings_of("net"))


def build_rule(config: RunConfig, net: Net) -> Rule:
    """The rule of a run; with ``train_last`` the blocks before the last ones are frozen."""
    kind = RULES[config.rule]
    if config.train_last:
        if not kind.trains_blocks or config.train_last > net.blocks:
            blocks = (
                f"{net.blocks}, the blocks of net {config.net}" if kind.trains_blocks else "no number: no block trains"
            )
            raise ConfigError(
                f"train-last: expected at most {blocks}, got {config.train_last} (rule {config.rule}). "
                "Take another --train-last, or leave it out."
            )
        kind = frozen_before(kind, net.blocks - config.train_last)
    with started(config, "rule"):
        return kind(**config.settings_of("rule"))


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
    """The optimizer of one group. What the group leaves open is the run's; another optimizer has its own defaults."""
    name = group.optimizer or config.optimizer
    settings = config.settings_of("optimizer") if name == config.optimizer else {}
    return OPTIMIZERS[name](**settings).build(
        [tensors[name] for name in group.names],
        lr=config.lr if group.lr is None else group.lr,
        weight_decay=config.weight_decay if group.weight_decay is None else group.weight_decay,
    )


def usable(device: str) -> torch.device:
    """The device; raises if this machine does not have it."""
    if device.startswith("cuda") and torch.device(device).index not in (None, *range(torch.cuda.device_count())):
        raise ConfigError(f"device: expected one that this machine has, got {device!r}. Use --device cpu.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected one that this machine has, got 'cuda' without CUDA. Use --device cpu.")
    return torch.device(device)


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Choose the algorithms of a GPU that give the same bits every time, and restore the choice afterwards.

    An operation that has none warns. The CPU's algorithms repeat anyway.
    """
    if device == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it is first used
    chosen, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    tries = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(chosen, warn_only=warns)
        torch.backends.cudnn.benchmark = tries


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of CPU threads inside the context and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
