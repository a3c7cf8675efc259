"""Training, probes and the start stay as fast as they are, as ratios; a planted slowdown is noticed."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from faudit.bench import guard
from faudit.experiment import threads
from faudit.rules.bp import BP
from faudit.rules.rule import Step


@pytest.mark.slow
def test_every_ratio_is_within_its_limit() -> None:
    result = guard.guarded()
    assert set(guard.REFERENCE) < set(result["ratios"])
    assert result["above"] == [], "\n".join(guard.lines(result))


@pytest.mark.slow
def test_a_step_that_works_half_as_fast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    step = BP.step

    def twice(*args: Any, **settings: Any) -> Step:
        """A step that takes twice the processor time, though it multiplies nothing twice."""
        started = time.process_time()
        found = step(*args, **settings)
        ended = 2 * time.process_time() - started
        while time.process_time() < ended:
            pass
        return found

    monkeypatch.setattr(BP, "step", twice)
    with threads(1):
        found = guard.times(3)
    assert found["bp step / roofline"] > guard.MARGIN * guard.REFERENCE["bp step / roofline"]
    assert found["dfa step / roofline"] < guard.MARGIN * guard.REFERENCE["dfa step / roofline"]


def test_a_product_that_is_made_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    step = BP.step

    def wasteful(self: BP, net: Any, params: Any, *args: Any, **settings: Any) -> Step:
        weight = params["readout.head.weight"] if "readout.head.weight" in params else params["readout.weight"]
        with torch.no_grad():
            weight @ weight.T  # the smallest product
        return step(self, net, params, *args, **settings)

    monkeypatch.setattr(BP, "step", wasteful)
    found = guard.counts()
    assert found["operations, resmlp bp"] > 1 and found["operations, cnn bp"] > 1
    assert found["operations, resmlp dfa"] == found["operations, cnn dfa"] == 1


def test_a_ratio_above_its_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "counts", lambda: {"operations, resmlp bp": 1.001})
    monkeypatch.setattr(guard, "times", lambda _: {"bp step / roofline": 1.4, "probes / bp step": 600.0})
    monkeypatch.setattr(guard, "starts", lambda _: {})
    result = guard.guarded(repeats=1)
    assert result["above"] == ["operations, resmlp bp", "probes / bp step"]
    assert sum("above its limit" in line for line in guard.lines(result)) == 2
