"""Laws that every probe keeps under every rule."""

from __future__ import annotations

import pytest
import torch

from faudit.probes import PROBES
from tests.support.nets import TINY_NETS, Setup

ANY_NET = next(iter(TINY_NETS))


@pytest.fixture(params=list(PROBES))
def probe_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_probe_changes_nothing(probe_name: str, rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    for value in setup.params.values():
        value.grad = torch.ones_like(value)
    held = {**setup.params, **setup.state, "x": setup.x, "y": setup.y}
    copies = {name: value.detach().clone() for name, value in held.items()}
    random, mode = torch.get_rng_state(), torch.is_grad_enabled()
    PROBES[probe_name]().measure(setup.reading())
    assert all(torch.equal(value, copies[name]) for name, value in held.items())
    assert all(
        value.requires_grad and torch.equal(value.grad, torch.ones_like(value))  # type: ignore[arg-type]
        for value in setup.params.values()
    )
    assert torch.equal(random, torch.get_rng_state()) and mode == torch.is_grad_enabled()


def test_a_probe_works_where_gradients_are_switched_off(probe_name: str, rule_name: str) -> None:
    setup = Setup(rule_name, ANY_NET)
    with_grad = PROBES[probe_name]().measure(setup.reading())
    with torch.no_grad():
        assert PROBES[probe_name]().measure(setup.reading()) == with_grad


def test_probes_write_different_entries(rule_name: str) -> None:
    reading = Setup(rule_name, ANY_NET).reading()
    entries = [name for probe in PROBES for name in PROBES[probe]().measure(reading)]
    assert len(entries) == len(set(entries))
