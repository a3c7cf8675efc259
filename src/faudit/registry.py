"""Registries: tables of name → "module:attribute" whose members are imported on first use.

Names and one-line descriptions are read without importing the members, and so without torch. This keeps
``faudit list rules`` and the validation of a config fast.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from faudit.errors import ConfigError

Member = TypeVar("Member")
LISTED = 12  # most names in a message


class Registry(Mapping[str, Member], Generic[Member]):
    """A read-only mapping whose values are imported on first access."""

    def __init__(self, family: str, targets: Mapping[str, str]) -> None:
        self.family = family
        self._targets = dict(targets)

    def _target(self, name: str) -> str:
        if name not in self._targets:
            raise ConfigError(unknown(self.family, name, self._targets))
        return self._targets[name]

    def __getitem__(self, name: str) -> Member:
        module, attribute = self._target(name).split(":")
        member: Member = getattr(importlib.import_module(module), attribute)
        return member

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def __repr__(self) -> str:
        return f"<{self.family}: {', '.join(self._targets)}>"

    def source(self, name: str) -> tuple[ast.Module, ast.FunctionDef | ast.ClassDef | None]:
        """The syntax tree of a member's file, and its node there if it is a function or class; imports nothing."""
        module, attribute = self._target(name).split(":")
        try:
            tree, _ = syntax_tree(module)
        except ImportError:
            raise ConfigError(f"the {self.family} {name!r} names the module {module}, which does not exist") from None
        members = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        return tree, next((node for node in members if node.name == attribute), None)

    def summary(self, name: str) -> str:
        """The first paragraph of the docstring of the member, or else of its file; imports nothing."""
        tree, own = self.source(name)
        text = (ast.get_docstring(own) if own else None) or ast.get_docstring(tree) or ""
        return " ".join(text.split("\n\n")[0].replace("``", "").split())


def declared(owner: ast.FunctionDef | ast.ClassDef | None, name: str, *makers: Callable[..., Any]) -> Any:
    """The value that a class body assigns to a name; KeyError if it assigns none, ValueError if it is no literal.

    A literal may call one of ``makers``, by its name.
    """
    for line in owner.body if owner else []:
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            if name in map(ast.unparse, targets):
                return literal(line.value, *makers)
    raise KeyError(name)


def literal(node: ast.expr, *makers: Callable[..., Any]) -> Any:
    """The value of an expression of constants, tuples and calls of ``makers``; ValueError for any other."""
    if isinstance(node, ast.Tuple):
        return tuple(literal(element, *makers) for element in node.elts)
    called = {maker.__name__: maker for maker in makers}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in called:
        words = {str(word.arg): literal(word.value, *makers) for word in node.keywords}
        return called[node.func.id](*(literal(argument, *makers) for argument in node.args), **words)
    return ast.literal_eval(node)


def syntax_tree(module: str) -> tuple[ast.Module, str]:
    """The syntax tree of a module, and the package that its relative imports start from; imports only its parents."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {module}")
    return _parsed(spec.origin, os.stat(spec.origin).st_mtime_ns), spec.parent or ""


@lru_cache(maxsize=256)
def _parsed(path: str, modified: int) -> ast.Module:
    """The syntax tree of a file as it was when ``modified``; many members share the file of their base class."""
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def unknown(what: str, name: object, valid: Iterable[str]) -> str:
    """The message for an unknown name, with the closest valid name and all valid names."""
    names = list(valid)
    return f"unknown {what} {str(name)!r}{nearest(name, names)}. Valid: {some_of(names)}"


def some_of(names: Sequence[str]) -> str:
    """Names in a message: all of them, or the first ones and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def nearest(name: object, valid: Iterable[str]) -> str:
    """The text ", did you mean …?" if a valid name is close, else an empty string."""
    near = difflib.get_close_matches(str(name), list(valid), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""
