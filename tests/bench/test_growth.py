"""The growth of the cost is fitted by a line or an exponent, and every sweep runs."""

from __future__ import annotations

import pytest

from faudit.bench import growth
from faudit.bench.growth import DEPTHS, SWEEPS, Sweep, exponent, growth_speed, line, lines
from faudit.bench.timing import noise


def test_a_line_has_r2_of_one_and_a_square_does_not_pass_for_a_line() -> None:
    assert line(DEPTHS, [3 + 2 * depth for depth in DEPTHS]) == {"slope": 2.0, "intercept": 3.0, "r2": 1.0}
    assert line(DEPTHS, [float(depth**2) for depth in DEPTHS])["r2"] < 0.99
    assert exponent((64, 128, 2048), [64.0**2, 128.0**2, 2048.0**2]) == {"exponent": 2.0}


def test_every_sweep_is_timed_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"width": 8, "depth": 2, "eval_size": 16, "batch_size": 16}
    sizes = {"depth": (2, 3, 4), "width": (8, 16, 32), "batch_size": (4, 8, 16), "eval_size": (8, 16, 32)}
    few = {
        name: Sweep(sweep.setting, sizes[sweep.setting], sweep.timed, steps=2, others={**small})
        for name, sweep in SWEEPS.items()
    }
    monkeypatch.setattr(growth, "SWEEPS", few)
    monkeypatch.setattr(growth, "noise", lambda _: noise(600))
    result = growth_speed(threads_used=1, repeats=1, sizes=2)
    for name, sweep in result["sweeps"].items():
        assert sweep["sizes"] == list(few[name].sizes[:2])
        assert set(sweep["timed"]) == set(few[name].timed)
        for entry in sweep["timed"].values():
            assert len(entry["milliseconds"]) == 2 and min(entry["milliseconds"]) > 0
            assert ("exponent" in entry) is (sweep["setting"] == "width")
    assert "exponent" in "\n".join(lines(result)) and "R²" in "\n".join(lines(result))


def test_the_sweeps_are_those_that_were_promised() -> None:
    assert (DEPTHS[0], DEPTHS[-1]) == (2, 64)
    assert (growth.WIDTHS[0], growth.WIDTHS[-1]) == (64, 2048)
    assert {sweep.setting for sweep in SWEEPS.values()} == {"depth", "width", "batch_size", "eval_size"}
