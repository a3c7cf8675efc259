"""What the tests share: tiny datasets and nets, in float64 where a law must hold to the last digits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from faudit.data.dataset import Dataset
from faudit.nets.cnn import SmallCNN
from faudit.nets.net import Net
from faudit.nets.resmlp import ResMLP
from faudit.nets.student import StudentNet
from faudit.nets.vit import ViT
from faudit.rng import generators
from faudit.rules import RULES
from faudit.rules.rule import Rule

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup, and what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")  # for the processes that tests start
settings.register_profile("faudit", deadline=None)  # a busy machine is no failure
settings.load_profile("faudit")
torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

ROOT = Path(__file__).parents[1]
CLASSES = 5


def tiny_dataset(train: int = 60, test: int = 20) -> Dataset:
    draw = torch.Generator().manual_seed(7)
    x = torch.randint(17, (train + test, 1, 4, 4), generator=draw, dtype=torch.uint8)
    y = torch.arange(train + test) % CLASSES
    return Dataset("tiny", x[:train], y[:train], x[train:], y[train:], CLASSES, (0.5,), (0.3,), scale=16.0)


# One tiny instance of every net, and of every variant whose mathematics differs. A new net adds its own.
TINY_NETS: dict[str, Callable[[], Net]] = {
    "resmlp": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.4),
    "resmlp-no-norm": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.4, no_terminal_norm=True),
    "resmlp-no-residual": lambda: ResMLP((1, 4, 4), CLASSES, depth=3, width=6, w2_std=0.8, no_residual=True),
    "vit": lambda: ViT((1, 4, 4), CLASSES, depth=3, width=8, patch=2, heads=2),
    "vit-cls": lambda: ViT((1, 4, 4), CLASSES, depth=3, width=8, patch=2, heads=2, credit_tokens="cls"),
    "student": lambda: StudentNet((1, 4, 4), CLASSES, depth=3, width=6),
    "student-half-linear": lambda: StudentNet((1, 4, 4), CLASSES, depth=3, width=6, alpha=0.5),
    "cnn": lambda: SmallCNN((1, 4, 4), CLASSES),
}
RESMLPS = [name for name in TINY_NETS if name.startswith("resmlp")]  # what the oracle by hand knows


class Setup:
    """A rule on a net with weights, feedback and a batch, all in float64."""

    def __init__(self, rule: str, net: str, seed: int = 0, **settings: Any) -> None:
        self.rule: Rule = RULES[rule](**settings)
        self.net: Net = TINY_NETS[net]()
        named = generators(seed)
        self.params = {name: value.double().requires_grad_() for name, value in self.net.init(named["init"]).items()}
        draw = torch.Generator().manual_seed(seed + 1)
        self.x: Tensor = torch.randn(7, *self.net.sample_shape, dtype=torch.float64, generator=draw)
        self.y: Tensor = torch.randint(self.net.classes, (7,), generator=draw)
        feedback = self.rule.init(self.net, self.x, named["feedback"])
        self.state = {name: value.double() for name, value in feedback.items()}

    def grads(self) -> dict[str, Tensor]:
        return self.rule.step(self.net, self.params, self.state, self.x, self.y).grads


@pytest.fixture(params=list(RULES))
def rule_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(TINY_NETS))
def net_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def faudit(*words: str, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "faudit", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)
