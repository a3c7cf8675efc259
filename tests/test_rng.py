"""Named generators are independent of each other and remember where they stand."""

from __future__ import annotations

import torch

from faudit.rng import NAMES, derived, generators, restore, states


def test_every_name_and_seed_has_a_stream_of_its_own() -> None:
    seeds = [derived(seed, name) for seed in range(200) for name in NAMES]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**63 for seed in seeds)
    draws = {name: float(torch.rand((), generator=generator)) for name, generator in generators(0).items()}
    assert len(set(draws.values())) == len(NAMES)


def test_drawing_from_one_shifts_no_other() -> None:
    quiet, busy = generators(3), generators(3)
    torch.rand(1000, generator=busy["data"])
    for name in NAMES:
        same = torch.equal(torch.rand(5, generator=quiet[name]), torch.rand(5, generator=busy[name]))
        assert same == (name != "data")


def test_a_state_saved_is_a_state_restored() -> None:
    named = generators(1)
    torch.rand(17, generator=named["init"])
    saved = states(named)
    first = torch.rand(9, generator=named["init"])
    restore(named, saved)
    assert torch.equal(first, torch.rand(9, generator=named["init"]))


def test_the_streams_are_pinned() -> None:
    """A change here changes everybody's weights and batches under the same run id."""
    assert derived(42, "init") == 6742761615694275909
