"""Parsers accept what they say, and settings are read from the source of a class as Python would build it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from faudit.settings import Configurable, number, settings_of, sizes

HEAD = """
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar
from faudit.settings import number, one_of, setting, sizes, switch, whole
"""
BASE = f"""{HEAD}
Kind = TypeVar("Kind")

@dataclass(frozen=True)
class Base(Generic[Kind]):
    names: ClassVar[frozenset[str]] = frozenset({{"a"}})
    places: tuple[int, ...] = field(default=(), kw_only=True)
    first: int = setting(1, whole(0, 9), "first")
    second: float = setting(0.5, number(0.0), "second")
"""
SUB = f"""{HEAD}
from .base import Base as Below

@dataclass(frozen=True)
class Other:
    second: float = setting(0.25, number(0.0), "of the other")
    third: bool = setting(False, switch, "third")

@dataclass(frozen=True)
class Sub(Below[int], Other):
    first: int = setting(2, whole(0, 99), "first, changed")
    fourth: tuple[int, ...] = setting((3, 4), sizes, "fourth")

@dataclass(frozen=True)
class Hiding(Sub):
    first: int = 7
    plain: int = 3
"""
ODD = f"""{HEAD}
from dataclasses import make_dataclass

MODES = ("a", "b")

@dataclass(frozen=True)
class Constant:
    mode: str = setting("a", one_of(MODES), "a name of this file")

@dataclass(frozen=True)
class Called(make_dataclass("Made", [], frozen=True)):
    mode: str = setting("b", one_of(("a", "b")), "its base is no name")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"settings_of_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    for module, text in {"__init__": "from .sub import Sub", "base": BASE, "sub": SUB, "odd": ODD}.items():
        (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("base:Base", {"first": 1, "second": 0.5}),
        ("sub:Sub", {"second": 0.5, "third": False, "first": 2, "fourth": (3, 4)}),
        ("sub:Hiding", {"second": 0.5, "third": False, "fourth": (3, 4)}),
        ("odd:Constant", {"mode": "a"}),
        ("odd:Called", {"mode": "b"}),
    ],
)
def test_the_source_tells_what_the_class_has(package: str, target: str, want: dict[str, Any]) -> None:
    registry: Configurable[Any] = Configurable("thing", {"one": f"{package}.{target}"})
    read = registry.settings("one")
    assert registry.settings("one") is read
    assert (f"{package}.odd" in sys.modules) is target.startswith("odd")  # imported only if the source is not enough
    own = settings_of(registry["one"])
    assert {name: setting.default for name, setting in read.items()} == want
    assert {name: (one.default, one.help) for name, one in read.items()} == {
        name: (one.default, one.help) for name, one in own.items()
    }


def test_a_class_is_found_where_another_module_imports_it(package: str) -> None:
    registry: Configurable[Any] = Configurable("thing", {"one": f"{package}:Sub"})
    assert registry.settings("one")["fourth"].default == (3, 4)


@pytest.mark.parametrize("value", ["256,128", "256 128", [256, 128], ["256", "128"], ["256,128"], (256, 128)])
def test_sizes_of_layers_are_written_in_any_way(value: Any) -> None:
    assert sizes(value) == (256, 128) and sizes(500) == sizes("500") == sizes([500]) == (500,)


@pytest.mark.parametrize("value", ["", [], "256,", 0, [256, 0], True, 2.5, None, "a", {"a": 1}])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        sizes(value)


def test_a_number_may_have_an_upper_limit() -> None:
    parse = number(0.0, below=1.0)
    assert parse("0.5") == 0.5 and parse(0) == 0.0
    with pytest.raises(ValueError, match="a finite number ≥ 0 and < 1"):
        parse(1.0)
