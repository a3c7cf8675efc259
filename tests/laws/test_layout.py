"""Tests stand where the code stands, what they share is in tests/support, and none looks into what is private."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from faudit.rules import RULES
from tests.support.paths import ROOT

SOURCE, TESTS = ROOT / "src" / "faudit", ROOT / "tests"

# Private names of other packages that have no public way.
FOREIGN = {
    "_local_scalar_dense": "torch's operation that reads a number; a dispatch mode sees no other name",
    "_pin_memory": "torch's operation that pins memory, the same way",
    "_to_copy": "torch's operation that copies, the same way",
    "_exit": "os._exit: a fork ends without the clean-up of its parent",
    "_supxlabel": "matplotlib gives no getter",
    "_repr_html_": "what a notebook calls",
    "_actions": "argparse gives no list of its flags",
    "_SubParsersAction": "argparse gives no other way to its commands",
}


def nodes(folder: Path) -> Iterator[tuple[str, ast.AST]]:
    """Every node of every file under a folder of tests, each with the file's name."""
    for file, found in parsed().items():
        if folder in file.parents:
            name = str(file.relative_to(TESTS))
            yield from ((name, node) for node in found)


@cache
def parsed() -> dict[Path, list[ast.AST]]:
    """The nodes that are read here of every file of tests."""
    kinds = ast.Attribute, ast.ImportFrom, ast.Constant
    return {
        file: [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]
        for file in sorted(TESTS.rglob("*.py"))
    }


def test_every_room_of_the_code_has_a_folder_of_tests() -> None:
    rooms = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) >= 10
    for room in rooms:
        assert list((TESTS / room).rglob("test_*.py")), f"src/faudit/{room} has no tests in tests/{room}"


def test_no_test_reads_private_state() -> None:
    for file, node in nodes(TESTS):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            assert own or node.attr in FOREIGN, f"{file}:{node.lineno} reads {node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            assert not private, f"{file}:{node.lineno} imports {private}"


def test_what_tests_share_is_in_support() -> None:
    for file, node in nodes(TESTS):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "tests":
            assert str(node.module).startswith("tests.support"), f"{file}:{node.lineno} imports from {node.module}"


def test_a_law_names_no_rule() -> None:
    names = set(RULES)
    for file, node in nodes(TESTS / "laws"):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value not in names, f"{file}:{node.lineno} names {node.value}"
