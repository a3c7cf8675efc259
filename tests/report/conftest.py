"""Stores that several tests of the report read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import stores


@pytest.fixture(scope="session")
def audited_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.audited(tmp_path_factory.mktemp("audited"))


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.many(tmp_path_factory.mktemp("made-up"), runs=12, epochs=4, seeds=2)
