"""The cost of watching is measured against an epoch and a step of one process."""

from __future__ import annotations

import pytest
import torch

from faudit.bench.watch import lines, quartiles, watch_speed
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError


def test_the_ratio_is_that_of_the_pairs_and_not_of_the_medians() -> None:
    assert quartiles([2.0, 4.0, 60.0], [1.0, 4.0, 20.0]) == [1.0, 2.0, 3.0]


def test_the_cost_of_watching_is_a_share_of_an_epoch_and_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randint(256, (160, 3, 32, 32), generator=draw, dtype=torch.uint8), torch.arange(160) % 10
    tiny = Dataset("noise", x[:128], y[:128], x[128:], y[128:], 10, (0.5,) * 3, (0.25,) * 3, crop=4, flip=True)
    monkeypatch.setattr("faudit.bench.watch.pictures", lambda _: tiny)
    monkeypatch.setattr("faudit.bench.watch.STEPS", 2)
    result = watch_speed(data_dir=None, threads_used=1, repeats=1)
    assert result["log_share"] == pytest.approx(result["seconds"]["log"] / result["seconds"]["epoch"], rel=0.05)
    assert result["compare_over_step"]["least"] > 0 and "of the epoch" in lines(result)[1]
    assert result["pairs"] == 2 and result["compare_quartiles"][1] == pytest.approx(
        result["compare_over_step"]["median"], abs=0.01
    )
    assert min(result["compare_processor"]) > 0 and "2 pairs" in lines(result)[2]
    with pytest.raises(ConfigError, match="at least 1 repeats, got 0"):
        watch_speed(data_dir=None, threads_used=1, repeats=0)
