"""Imports only go down, `audit` never trains, and the top level stays small: the map of the code, kept true."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "faudit"

# Lowest first. A package's own __init__ holds only its table of names, so the tables are at the bottom.
LAYERS: list[list[str]] = [
    ["errors"],
    ["registry"],
    ["settings", "papers/__init__"],
    [
        "nets/__init__",
        "optimizers/__init__",
        "rules/__init__",
        "data/__init__",
        "probes/__init__",
        "figures/__init__",
        "sweep/__init__",
        "audit/checks/__init__",
    ],
    ["own_members"],
    ["config", "rng", "tensors", "stats", "formats", "latex"],
    ["nets/", "optimizers/"],
    ["data/", "store/"],
    ["rules/"],
    ["probes/", "experiment"],
    ["audit/"],
    ["watch/", "train"],
    ["stack/"],
    ["sweep/", "figures/"],
    ["analysis/"],
    ["papers/"],
    ["bench/", "report/"],
    ["cli/"],
    ["__main__", "__init__"],
]
NO_TORCH = [
    "errors", "registry", "settings", "own_members", "config", "stats", "formats", "latex", "store/rows",
    "store/environment", "store/run", "store/files", "store/summary", "store/index", "store/table",
    "audit/judge", "audit/strategies", "sweep/engine", "sweep/drive",
    "sweep/local", "sweep/display", "sweep/study", "sweep/estimate", "sweep/ray",
    "sweep/slurm", "sweep/slurm_queue", "sweep/together", "stack/plan",
    "sweep/trackers/tracker", "sweep/trackers/tensorboard", "sweep/trackers/wandb", "sweep/trackers/mlflow",
    "sweep/run_update",
    "bench/protocol/cases", "bench/protocol/confusion", "papers/paper", "papers/claim", "papers/document",
    "papers/page", "papers/reproduce", "papers/figure", "papers/faeval/__init__", "sweep/names", "figures/plan",
    "figures/style", "figures/plot", "store/where", "store/quantity", "store/progress", "analysis/runs",
    "analysis/compare", "figures/crossarch", "figures/penalty_rescue", "figures/atlas", "report/page", "report/server",
    "cli/main",
]  # fmt: skip


def modules() -> list[str]:
    return sorted(str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py"))


def layer(module: str) -> int:
    for level, names in enumerate(LAYERS):
        if module in names:
            return level
    for level, names in enumerate(LAYERS):
        if any(name.endswith("/") and module.startswith(name) for name in names):
            return level
    pytest.fail(f"{module}.py is in no layer: add it to LAYERS")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((SOURCE / f"{module}.py").read_text())


@cache
def imports(module: str) -> list[tuple[int, str, bool]]:
    """(line, what, whether at the top level) of every import; what is a module of ours or a foreign package."""
    tree = tree_of(module)
    lazy = {id(node) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for node in ast.walk(outer)}
    typing = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
        for node in ast.walk(outer)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, id(node) not in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                path = SOURCE.joinpath(*whole.split(".")[1:])
                inner = whole.startswith("faudit.") and (path.with_suffix(".py").exists() or path.is_dir())
                found.append((node.lineno, whole if inner else node.module, id(node) not in lazy))
    return found


def ours(name: str) -> str | None:
    """faudit.rules.dfa → rules/dfa; faudit.rules → rules/__init__; None for a foreign package."""
    if name.split(".")[0] != "faudit":
        return None
    path = "/".join(name.split(".")[1:])
    return path if path and (SOURCE / f"{path}.py").exists() else f"{path}/__init__".lstrip("/")


@pytest.mark.parametrize("module", modules())
def test_imports_only_go_down(module: str) -> None:
    for line, name, _ in imports(module):
        target = ours(name)
        if target is None or module == "__init__":
            continue
        same_room = "/" in module and Path(target).parts[0] == Path(module).parts[0]
        assert target == "__init__" or layer(target) < layer(module) or same_room, (
            f"{module}.py:{line} imports {name}, which is not below it"
        )


@pytest.mark.parametrize("module", NO_TORCH)
def test_some_files_know_no_torch(module: str) -> None:
    seen, queue = set(), [module]
    while queue:
        current = queue.pop()
        for line, name, top in imports(current):
            if not top:
                continue
            assert name.split(".")[0] != "torch", f"{current}.py:{line} imports torch, and {module}.py imports it"
            target = ours(name)
            if target and target not in seen:
                seen.add(target)
                queue.append(target)


@pytest.mark.parametrize("module", modules())
def test_every_file_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(tree_of(module)), f"{module}.py has no docstring"


def test_the_top_level_holds_about_ten_modules() -> None:
    assert len([module for module in modules() if "/" not in module and not module.startswith("__")]) <= 12


def test_nothing_is_pickled() -> None:
    for module in modules():
        for line, name, _ in imports(module):
            assert name.split(".")[0] not in ("pickle", "dill", "cloudpickle", "shelve"), f"{module}.py:{line}"
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.load":
                assert module == "watch/weights", f"{module}.py:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":  # foreign weights
                assert "weights_only=True" in map(ast.unparse, node.keywords), f"{module}.py:{node.lineno}"
