"""Real runs for the paper's files."""

from __future__ import annotations

from pathlib import Path

import pytest

import faudit
from tests.support.faeval import DIGITS, SEED


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three real runs of the digits."""
    runs = tmp_path_factory.mktemp("trained")
    for experiment in ("resmlp bp", "resmlp dfa", "vit dfa"):
        faudit.fit(DIGITS.config(experiment, SEED), runs)
    return runs
