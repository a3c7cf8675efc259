"""Foreign models for the tests: a net of ours as a module, models with faults, and all that a model consists of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faudit.nets.net import Params

CLASSES, WIDTH = 5, 8
MLP_TAPS = ["0", "2", "4"]  # the linear layers of ``mlp`` before its head


class Block(nn.Module):
    """h + W2·GELU(W1·LN(h)), in PyTorch's own words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.w1, self.w2 = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.w2(F.gelu(self.w1(self.norm(h))))  # type: ignore[no-any-return]  # nn.Module returns Any


def resmlp(params: Params, *, inputs: int, width: int, depth: int, classes: int) -> nn.Sequential:
    """Our ResMLP as a plain ``nn.Sequential`` with the same weights: children embed, 0 … L−1, readout."""
    model = nn.Sequential()
    model.add_module("embed", nn.Sequential(nn.Flatten(), nn.Linear(inputs, width)))
    for l in range(depth):
        model.add_module(str(l), Block(width))
    model.add_module("readout", nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes)))
    names = {"embed.": "embed.1.", "readout.norm.": "readout.0.", "readout.head.": "readout.1.", "blocks.": ""}
    own = {}
    for name, value in params.items():
        head = next(head for head in names if name.startswith(head))
        own[names[head] + name[len(head) :]] = value.detach()
    model.to(next(iter(own.values())).dtype).load_state_dict(own)
    return model


def mlp(*, depth: int = 3, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Sequential:
    """A plain stack whose activations write in place."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Linear(WIDTH, WIDTH)]
    for _ in range(depth - 1):
        layers += [nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH)]
    return nn.Sequential(*layers, nn.ReLU(inplace=True), nn.Linear(WIDTH, CLASSES)).to(dtype)


def batch(samples: int = 24, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(samples, WIDTH, generator=draw).to(dtype), torch.randint(CLASSES, (samples,), generator=draw)


class Around(nn.Module):
    """Two linear taps, with any code around the second."""

    def __init__(self, code: Callable[[Around, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.register_buffer("seen", torch.zeros(()))
        self.count = 0
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return self.head(self.code(self, self.one(x)))


def everything(model: nn.Module) -> dict[str, Any]:
    """All that an audit must leave alone, as values that can be compared."""
    hooks = [name for name in vars(model) if name.endswith("_hooks") or name.endswith("_hooks_with_kwargs")]
    return {
        "tensors": {name: bits(value) for name, value in (*model.named_parameters(), *model.named_buffers())},
        "objects": [id(value) for value in (*model.parameters(), *model.buffers(), *model.modules())],
        "grads": {name: None if value.grad is None else bits(value.grad) for name, value in model.named_parameters()},
        "asks": {name: value.requires_grad for name, value in model.named_parameters()},
        "modes": {name: module.training for name, module in model.named_modules()},
        "hooks": {name: [len(vars(module)[kind]) for kind in hooks] for name, module in model.named_modules()},
        "attributes": {name: sorted(vars(module)) for name, module in model.named_modules()},
        "random": (bits(torch.get_rng_state()), random.getstate(), repr(np.random.get_state())),
        "switches": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
    }


def bits(value: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return str(value.dtype), tuple(value.shape), value.detach().contiguous().numpy().tobytes()
