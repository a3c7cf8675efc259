"""Weights out: the trained network of a run as an ``nn.Module``, and the state of its rule.

The module has the weights under the names of the run (``blocks.0.…``), running statistics as buffers. Its input is what
the net read in training: normalised samples. ``normalise`` makes them from samples as the dataset holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from faudit.config import RunConfig, must_be_current
from faudit.data import DATASETS
from faudit.data.dataset import normalised
from faudit.errors import StoreError
from faudit.experiment import net_for, started
from faudit.nets.net import Net, Params, is_buffer
from faudit.store import checkpoint
from faudit.store.run import Run, damaged
from faudit.store.watched import WatchedConfig


@dataclass(frozen=True)
class Samples:
    """What a net must know of the samples: their shape, the outputs, and how they are normalised."""

    shape: tuple[int, ...]
    outputs: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float


class TrainedNet(nn.Module):
    """A net of faudit with its weights. In training mode it has dropout, and BatchNorm with the batch's statistics."""

    def __init__(self, net: Net, params: Params, samples: Samples) -> None:
        super().__init__()
        self.net, self.samples = net, samples
        self._names = tuple(params)
        for name, value in params.items():
            *parts, last = name.split(".")
            home: nn.Module = self
            for part in parts:
                if part not in home._modules:
                    home.add_module(part, nn.Module())
                home = home.get_submodule(part)
            if is_buffer(name):
                home.register_buffer(last, value.detach().clone())
            else:
                home.register_parameter(last, nn.Parameter(value.detach().clone()))

    def weights(self) -> dict[str, Tensor]:
        """The weights and running statistics by name, as the functions of the net take them."""
        return {name: attrgetter(name)(self) for name in self._names}

    def forward(self, x: Tensor) -> Tensor:
        """Normalised samples → logits."""
        net = self.net.in_training(torch.default_generator) if self.training else self.net
        return net.forward(self.weights(), x)

    def normalise(self, x: Tensor) -> Tensor:
        """Samples as the dataset holds them, such as uint8 pixels → what ``forward`` reads."""
        dtype = next((value.dtype for value in self.weights().values()), torch.float32)
        return normalised(x, self.samples.mean, self.samples.std, scale=self.samples.scale, dtype=dtype)


def load_model(run: Run | Path | str, *, epoch: int | None = None, data_dir: Path | str | None = None) -> TrainedNet:
    """The trained network of a run, in evaluation mode, on the CPU.

    ``epoch`` chooses a checkpoint that ``keep-epochs`` kept; without it the last one is taken. A run of an earlier
    version does not hold the shape of its samples: its dataset is then read from ``data_dir``.
    """
    run = run if isinstance(run, Run) else Run(Path(run))
    config = run.config()
    if isinstance(config, WatchedConfig):
        raise StoreError(
            f"{run.path} is a watched run: expected one that faudit trained, because it does not know the class "
            f"{config.net}. Build the model and load the tensors net/… of {run.checkpoint.name} into it."
        )
    must_be_current(config)
    tensors, path = tensors_of(run, epoch)
    samples = samples_of(run, config, data_dir=Path(data_dir) if data_dir else None)
    net, dtype = net_for(config, samples.shape, samples.outputs), getattr(torch, config.dtype)
    with started(config, "net"):
        initial = {name: value.to(dtype) for name, value in net.init(torch.Generator().manual_seed(0)).items()}
    params = checkpoint.of_kind(tensors, "net/")
    checkpoint.must_match(path, initial, params)
    return TrainedNet(net, {name: params[name] for name in initial}, samples).eval()


def rule_state(run: Run | Path | str, *, epoch: int | None = None) -> dict[str, Tensor]:
    """The state of a run's rule by name, such as its feedback matrices ``B.…``; empty for a rule without state."""
    tensors, _ = tensors_of(run if isinstance(run, Run) else Run(Path(run)), epoch)
    return checkpoint.of_kind(tensors, "rule/")


def tensors_of(run: Run, epoch: int | None) -> tuple[dict[str, Tensor], Path]:
    """The tensors of a checkpoint of a run and its file; refuses an epoch that was not kept."""
    run.must_be_whole()
    path = run.checkpoint if epoch is None or not run.kept(epoch).exists() else run.kept(epoch)
    if path.exists():
        tensors, header = checkpoint.load_of(run, epoch=None if path == run.checkpoint else epoch)
        if epoch in (None, header["epoch"]):
            return tensors, path
    wanted = "last checkpoint" if epoch is None else f"checkpoint of epoch {epoch}"
    raise StoreError(f"{run.path} has no {wanted}: train it, and keep earlier epochs with --keep-epochs.")


def samples_of(run: Run, config: RunConfig, *, data_dir: Path | None) -> Samples:
    """What a run keeps of its samples, or else its dataset."""
    kept: Any = run.environment().get("data")
    if kept is None:
        data = DATASETS[config.data](data_dir).with_pixels(config.pixels)
        kept = data.about()
    try:
        shape = tuple(map(int, kept["shape"]))
        mean, std = (tuple(map(float, kept[name])) for name in ("mean", "std"))
        return Samples(shape, int(kept["outputs"]), mean, std, float(kept["scale"]))
    except (KeyError, TypeError, ValueError):
        raise damaged(run.path / "env.json", "'data': expected shape, outputs, mean, std and scale") from None
