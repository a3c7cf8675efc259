"""The audit's speed is measured against an epoch of the same run."""

from __future__ import annotations

import pytest
import torch

from faudit.bench.audit import audit_speed, lines
from faudit.data.dataset import Dataset
from faudit.errors import ConfigError
from faudit.probes import PROBES


def test_the_audits_speed_is_a_ratio_of_one_run_and_every_probe_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randint(256, (160, 3, 32, 32), generator=draw, dtype=torch.uint8), torch.arange(160) % 10
    tiny = Dataset("noise", x[:128], y[:128], x[128:], y[128:], 10, (0.5,) * 3, (0.25,) * 3, crop=4, flip=True)
    monkeypatch.setattr("faudit.bench.audit.pictures", lambda _: tiny)
    result = audit_speed(data_dir=None, threads_used=1, repeats=1)
    assert set(result["probes"]) == set(PROBES) and result["repeats"] == 1
    epoch, audit = result["seconds"]["epoch"][0], result["seconds"]["audit"][0]
    assert result["epoch_over_audit"]["median"] == pytest.approx(epoch / audit, abs=0.02)
    assert "an epoch takes" in lines(result)[1]
    with pytest.raises(ConfigError, match="at least 1 repeats, got 0"):
        audit_speed(data_dir=None, threads_used=1, repeats=0)
