"""Laws that every probe keeps under every rule."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any, get_args

import pytest
import torch

from faudit.nets.net import is_buffer
from faudit.probes import PROBES, Declaration, Entry, Kind, Need, Shape, Tier
from faudit.probes.distribution import QUANTILES
from faudit.probes.perturbation import DRAWS
from faudit.probes.probe import Reading, measured
from faudit.store.rows import FOREIGN, LOOP, WATCHED, Row, from_lines, to_line
from tests.support.nets import TINY_NETS, Setup

ANY_NET = next(iter(TINY_NETS))


@pytest.fixture(params=list(PROBES))
def probe_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.usefixtures("few_directions")
def test_a_probe_changes_nothing(probe_name: str, rule_name: str, net_name: str) -> None:
    setup = Setup(rule_name, net_name)
    for value in setup.params.values():
        value.grad = torch.ones_like(value)
    held = {**setup.params, **setup.state, "x": setup.x, "y": setup.y}
    copies = {name: value.detach().clone() for name, value in held.items()}
    random, mode = torch.get_rng_state(), torch.is_grad_enabled()
    measured(PROBES[probe_name], setup.reading())
    assert all(torch.equal(value, copies[name]) for name, value in held.items())
    assert all(
        value.requires_grad is not is_buffer(name) and torch.equal(value.grad, torch.ones_like(value))  # type: ignore[arg-type]
        for name, value in setup.params.items()
    )
    assert torch.equal(random, torch.get_rng_state()) and mode == torch.is_grad_enabled()


@pytest.mark.usefixtures("few_directions")
def test_a_probe_works_where_gradients_are_switched_off(probe_name: str, rule_name: str) -> None:
    setup = Setup(rule_name, ANY_NET)
    with_grad = measured(PROBES[probe_name], setup.reading())
    with torch.no_grad():
        assert measured(PROBES[probe_name], setup.reading()) == with_grad


def test_a_probe_cites_where_its_numbers_come_from(probe_name: str) -> None:
    """Its file ends its docstring with a work and its year or number, or says that the measure is ours."""
    text = inspect.getdoc(inspect.getmodule(PROBES[probe_name])) or ""
    _, mark, reference = text.rpartition("\nReference: ")
    assert mark and re.search(r"\b(19|20)\d\d\b|rXiv \d|\bours\b", reference), f"no reference: {text}"


def test_what_is_read_from_the_source_is_what_the_class_declares(probe_name: str) -> None:
    probe = PROBES[probe_name]
    declared = PROBES.declared(probe_name)
    assert declared == Declaration(probe.entries, probe.tier, probe.version, probe.needs)
    assert set(declared.needs) <= set(get_args(Need)) and declared.tier in get_args(Tier)
    for entry in declared.entries:
        assert entry.shape in get_args(Shape) and entry.kind in get_args(Kind), entry.name
        assert entry.text[0].isupper() or entry.text[0] in "Γρ√1", f"{entry.name}: a sentence"
        assert entry.text.endswith("."), f"{entry.name}: a sentence"


def test_the_declarations_are_read_without_torch_and_at_once() -> None:
    code = (
        "import sys, time; from faudit.probes import PROBES; began = time.process_time(); "
        "assert 'gamma' in PROBES.entries and PROBES.declared('norms').tier == 'cheap'; "
        "assert time.process_time() - began < 0.5; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("few_directions")
def test_probes_return_exactly_the_entries_they_declare_and_the_reader_takes_them(
    rule_name: str, net_name: str
) -> None:
    reading = Setup(rule_name, net_name).reading()
    row = Row({entry.name: 0 for entry in LOOP})
    for name, probe in PROBES.items():
        entries, declared = measured(probe, reading), PROBES.declared(name).entries
        assert list(entries) == [entry.name for entry in declared]
        for entry in declared:
            assert_declared(entries[entry.name], entry, reading)
        row |= entries
    assert from_lines([to_line(row).encode()], where="rows.jsonl") == [row]


def assert_declared(value: Any, entry: Entry, reading: Reading) -> None:
    """A value has the shape and the kind of its entry, in this network."""
    blocks, parts = reading.net.blocks, len(reading.net.parts)
    lengths: dict[Shape, list[int]] = {
        "scalar": [], "taps": [blocks + 1], "blocks": [blocks], "parts": [parts],
        "feedback": [len(reading.rule.forward_of(reading.net, reading.params))],
        "draws": [blocks, DRAWS if any(map(reading.rule.is_feedback, reading.state)) else 0],
        "quantiles": [blocks, len(QUANTILES)],
    }  # fmt: skip
    cells = [value]
    for length in lengths[entry.shape]:
        assert all(isinstance(cell, list) and len(cell) == length for cell in cells if cell is not None), entry.name
        cells = [inner for cell in cells if cell is not None for inner in cell]
    kinds: dict[Kind, type] = {"number": float, "count": int, "flag": bool, "text": str}
    assert {type(cell) for cell in cells} <= {kinds[entry.kind], type(None)}, entry.name


def test_probes_write_different_entries() -> None:
    names = [entry.name for probe in PROBES for entry in PROBES.declared(probe).entries]
    assert len(names) == len(set(names)) and list(PROBES.entries) == names
    assert not set(names) & {entry.name for entry in (*LOOP, *WATCHED, *FOREIGN)}
