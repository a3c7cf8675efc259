"""Networks at the edges where measurements break; ``EDGES`` has them by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from faudit.nets.net import part
from faudit.probes.probe import Reading
from tests.support.nets import Setup
from tests.support.readings import reading_of

SAMPLES = 8
LARGE = 2.0**27  # 1.3e8, and exact in float32


def exploded(setup: Setup) -> None:
    """‖h‖ ≈ 1e8 at every tap."""
    for name in setup.params:
        if name.startswith("embed."):
            setup.params[name] = setup.params[name] * LARGE


def no_gradient(setup: Setup) -> None:
    """A head of zeros: the error is there, and no state changes it."""
    setup.params[head(setup)] = setup.params[head(setup)] * 0


def fitted(setup: Setup) -> None:
    """Every sample right and so far ahead that softmax is exactly one-hot: no error, so no credit and no gradient."""
    setup.params[head(setup)] = setup.params[head(setup)] * LARGE
    setup.y = setup.net.forward(setup.params, setup.x).argmax(dim=1)


def identical(setup: Setup) -> None:
    """The whole buffer is one sample."""
    setup.x, setup.y = setup.x[:1].repeat(SAMPLES, 1, 1, 1), setup.y[:1].repeat(SAMPLES)


def single(setup: Setup) -> None:
    """The whole buffer is one sample, and there is one of it."""
    setup.x, setup.y = setup.x[:1], setup.y[:1]


EDGES: dict[str, Callable[[Setup], None]] = {
    "exploded": exploded,
    "no gradient": no_gradient,
    "fitted": fitted,
    "identical": identical,
    "single": single,
}


def head(setup: Setup) -> str:
    return next(name for name, value in setup.params.items() if part(name) == "readout" and value.dim() == 2)


@cache
def at_edge(edge: str, rule: str, net: str = "resmlp") -> tuple[Setup, Reading]:
    """A float32 network at an edge, and the same numbers in float64 for the computation by hand."""
    setup = Setup(rule, net)
    draw = torch.Generator().manual_seed(11)
    setup.params = {name: value.detach() for name, value in setup.params.items()}
    setup.x = torch.randn(SAMPLES, *setup.net.sample_shape, generator=draw).double()  # float32 holds every digit
    setup.y = torch.randint(setup.net.classes, (SAMPLES,), generator=draw)
    EDGES[edge](setup)
    reading = reading_of(setup, torch.float32)
    reading.initial = {name: value.flip(0) for name, value in reading.params.items()}
    return setup, reading
