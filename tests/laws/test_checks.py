"""Laws that every check keeps; a new check passes them unchanged."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from faudit.audit.checks import CHECKS
from faudit.audit.checks.check import NOT_MEASURED, PASSED, Check
from faudit.audit.protocol import PROTOCOLS
from faudit.store.rows import ENTRIES, Row
from tests.support.cases import case
from tests.support.paths import ROOT

OF_CASE = {"epoch", "null_of", "dtype"}  # what a case itself reads of a row: which one it is, and what it is of


class Recorded(Row):
    """A row that knows which entries were asked for."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__(row)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


@pytest.fixture(params=list(CHECKS))
def check(request: pytest.FixtureRequest) -> Check:
    return CHECKS[request.param]()


def test_a_check_is_a_frozen_value_under_its_registered_name(check: Check) -> None:
    kind = type(check)
    assert "__dataclass_fields__" in vars(kind), "decorated itself, so that its own fields are fields"
    assert CHECKS[check.name] is kind and check == kind() and hash(check) == hash(kind())
    with pytest.raises(dataclasses.FrozenInstanceError):
        check.name = "other"  # type: ignore[misc]


def test_a_check_reads_exactly_the_entries_it_names(check: Check) -> None:
    row = Recorded(case().last)
    check.find(dataclasses.replace(case(), rows=[row]))
    assert check.reads and row.asked - OF_CASE == set(check.reads) and len(set(check.reads)) == len(check.reads)
    assert set(check.reads) <= ENTRIES.logged.keys(), "a run's row may hold what is declared, and nothing else"


def test_each_grid_is_of_a_threshold_and_holds_where_it_stands(check: Check) -> None:
    stand = {entry.name: getattr(check, entry.name) for entry in dataclasses.fields(check)}
    for name, grid in check.grid.items():
        assert stand[name] in grid and list(grid) == sorted(set(grid)), name
        for value in grid:
            varied = dataclasses.replace(check, **{name: value})
            assert varied.find(case()).check == check.name


def test_a_healthy_case_passes_and_asking_changes_nothing(check: Check) -> None:
    one = case()
    before = copy.deepcopy(one)
    found = check.find(one)
    assert found.status == PASSED and found.check == check.name and found.reason
    assert check.find(one) == found and one == before


def test_a_missing_entry_is_not_measured_and_never_a_pass(check: Check) -> None:
    for name in check.reads:
        row = case().last
        without = Row({entry: value for entry, value in row.items() if entry != name})
        for spoilt in (without, Row({**row, name: None})):
            found = check.find(dataclasses.replace(case(), rows=[spoilt]))
            assert (found.status, found.value) == (NOT_MEASURED, None), name


def test_a_check_is_in_some_protocol_and_in_the_documents_table(check: Check) -> None:
    asked = [one for protocol in PROTOCOLS.values() for one in (*protocol.checks, *protocol.labels)]
    assert type(check) in map(type, asked)
    assert f"| `{check.name}` | " in (ROOT / "docs" / "protocol.md").read_text()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_is_made_of_registered_checks_under_its_own_name(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.name == name
    for check in (*protocol.checks, *protocol.labels):
        assert type(check) is CHECKS[check.name] and protocol[check.name] is check
