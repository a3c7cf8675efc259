"""What a probe declares is read from its source, and a declaration that cannot be read is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.errors import ConfigError
from faudit.probes import PROBES, Entry, Probes

OWN = """
import a_module_that_does_not_exist
from faudit.probes import Entry
from faudit.probes.probe import Probe

class Own(Probe):
    tier = "full"
    version: int = 3
    entries = (Entry("skew", "taps", "How skewed " "a tap is.", unit="1", required=False),)
"""


def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Probes:
    (tmp_path / "own_probe.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Probes("probe", {"own": "own_probe:Own"})


def test_a_probe_declares_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = own(tmp_path, monkeypatch, OWN)
    declared = probes.declared("own")
    assert (declared.tier, declared.version, declared.needs) == ("full", 3, ())
    assert probes.entries == {"skew": Entry("skew", "taps", "How skewed a tap is.", unit="1")}
    assert declared.entries == tuple(probes.entries.values())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('    tier = "full"\n', "", "missing 1 required positional argument: 'tier'"),
        ("version: int = 3", "version: int", "missing 1 required positional argument: 'version'"),
        ("version: int = 3", "version: int = 2 + len('x')", "malformed node"),
        ('"taps", ', "SHAPE, ", "malformed node"),
        ('unit="1"', 'colour="red"', "unexpected keyword argument 'colour'"),
        ("class Own(", "class Other(", "missing 3 required positional arguments"),
    ],
)
def test_a_declaration_that_is_not_whole_or_not_literal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, told: str
) -> None:
    assert old in OWN
    with pytest.raises(ConfigError) as caught:
        own(tmp_path, monkeypatch, OWN.replace(old, new)).declared("own")
    text = str(caught.value)
    assert told in text and "\n" not in text
    assert text.startswith("the probe 'own': expected its class to declare entries, tier and version as literals, got ")


def test_an_unknown_probe_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="unknown probe 'norm', did you mean 'norms'"):
        PROBES.declared("norm")


def test_a_list_has_as_many_places_as_the_network_gives_it() -> None:
    assert Entry("a", "taps", "").lengths(4) == {5} and Entry("a", "blocks", "").lengths(4) == {4}
    assert Entry("a", "parts", "").lengths(4) == {6} and not Entry("a", "parts", "").fits(5, 4)
    assert all(Entry("a", "feedback", "").fits(length, 4) for length in (0, 1, 9)), "one for each matrix"
    assert Entry("a", "draws", "").lengths(4) == {4} and Entry("a", "scalar", "").lengths(4) == set()
    assert not Entry("a", "taps", "").fits(1, 0) and not Entry("a", "feedback", "").fits(1, 0), "no net has no block"
