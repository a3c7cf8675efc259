"""Works are timed in turns, ratios are taken within a round, and the machine is described."""

from __future__ import annotations

import pytest

from faudit.bench.timing import in_turns, machine, must_be_some, noise, ratio, spread, told
from faudit.errors import ConfigError


def test_works_alternate_and_every_other_round_goes_backwards() -> None:
    done: list[str] = []
    clock = iter(range(100))
    works = {name: (lambda name=name: done.append(name)) for name in "abc"}
    times = in_turns(works, repeats=3, clock=lambda: float(next(clock)))
    assert "".join(done) == "abc" + "cba" + "abc" and times == {name: [1.0] * 3 for name in "abc"}


def test_a_ratio_is_taken_within_a_round() -> None:
    assert ratio([2.0, 40.0, 3.0], [1.0, 10.0, 1.0]) == {"median": 3.0, "least": 2.0, "most": 4.0}
    assert told(spread([0.5, 1.5, 1.0])) == "1.00 (0.50–1.50)"


def test_the_machine_is_described_and_holds_no_name_of_a_host() -> None:
    found = machine(2)
    assert {"cpu", "cores", "memory_gb", "threads", "load", "torch", "python", "commit", "system"} <= set(found)
    assert found["threads"] == 2 and found["memory_gb"] > 0.1 and len(found["load"]) == 3


def test_no_repeats_are_refused_and_noise_has_the_shape_of_cifar10() -> None:
    with pytest.raises(ConfigError, match="bench: expected at least 1 repeats, got 0"):
        must_be_some(threads=1, repeats=0)
    data = noise(60)
    assert data.train_x.shape == (50, 3, 32, 32) and len(data.test_x) == 10 and (data.crop, data.flip) == (4, True)
