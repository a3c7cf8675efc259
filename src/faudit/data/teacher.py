"""The teacher–student task: Gaussian inputs, labelled by the arg-max of a fixed random network of StudentNet's family.

x ~ N(0, I) in 64 dimensions; 20,000 samples for training, 4,000 for test, 10 classes. The teacher has two blocks of
width 128. Its weights come from a fixed seed and are larger than a new student's, so that tanh is not close to linear.
The mean logit of each class is subtracted, so that all ten classes occur. The data is made when it is loaded. It needs
no files and does not depend on the run's seed.
"""

from __future__ import annotations

from pathlib import Path

import torch

from faudit.data.dataset import Dataset
from faudit.nets.student import StudentNet

SEED = 20_160_101
DIMENSIONS, CLASSES = 64, 10
TRAIN, TEST = 20_000, 4_000
GAIN, W2_STD = 3.0, 0.03


def teacher(data_dir: Path | None = None) -> Dataset:
    """Gaussian vectors labelled by a random network, 10 classes, made when loaded."""
    generator = torch.Generator().manual_seed(SEED)
    net = StudentNet((1, 1, DIMENSIONS), CLASSES, depth=2, width=128, w2_std=W2_STD)
    params = {name: GAIN * value.double() for name, value in net.init(generator).items()}
    # Drawn in float64 and rounded to 2⁻¹⁰: the rounding of different processors differs by far less.
    drawn = torch.randn(TRAIN + TEST, 1, 1, DIMENSIONS, generator=generator, dtype=torch.float64)
    x = drawn.mul(1024).round().div(1024).to(torch.float32)
    with torch.no_grad():
        logits = net.forward(params, x.double())  # in float64, so that rounding decides no label
        y = (logits - logits.mean(dim=0)).argmax(dim=1)
    return Dataset("teacher", x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], CLASSES, (0.0,), (1.0,), scale=1.0)
