"""The cost of the live page is measured on epochs of one run, with a real server and clients that really ask."""

from __future__ import annotations

import pytest

from faudit.bench import serve
from faudit.errors import ConfigError

pytestmark = pytest.mark.slow  # it starts a server and trains for seconds


def test_epochs_are_timed_with_and_without_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    monkeypatch.setattr(serve, "SEEDS", range(1))
    monkeypatch.setattr(serve, "SPAN", 0.5)
    monkeypatch.setattr(serve, "TRAINED", serve.TRAINED.with_(data="digits", net="resmlp", width=8, depth=2))
    result = serve.serve_speed(threads=1, repeats=2)
    alone, served = result["seconds"]["alone"], result["seconds"]["served"]
    assert len(alone) == len(served) == 2 and min(alone + served) > 0
    assert result["slower"]["of_medians"] == pytest.approx(sum(served) / sum(alone) - 1, abs=1e-2)
    assert result["answers"] >= serve.CLIENTS and "20 clients, 1 threads, 2 pairs" in serve.lines(result)[0]
    with pytest.raises(ConfigError, match="at least 1 repeats, got 0"):
        serve.serve_speed(threads=1, repeats=0)
