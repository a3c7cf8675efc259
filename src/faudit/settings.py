"""Settings: what a member of a family declares about itself, and the parsers of their values.

A net, rule or optimizer declares a setting as a field of its class:

    clip: float = setting(1.0, number(0.0, above=True), "largest gradient norm of one block")

``Configurable.settings`` reads the declarations from the source, base classes included. So flags, help and configs know
the settings of every member without importing torch. A declaration may use the names of this module alone. A class
whose source cannot be read in this way is imported instead.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from importlib.util import resolve_name
from operator import index
from typing import Any, SupportsIndex

from faudit.errors import ConfigError
from faudit.registry import Member, Registry, nearest, some_of, syntax_tree

Parser = Callable[[Any], Any]
QUOTED = 200  # most characters of a value in a message


@dataclass(frozen=True)
class Setting:
    """One declared setting. ``parse`` returns the value, or raises a ValueError that says what it expects.

    ``before`` is the value of runs from before there was this setting, if it is not the default. Their files lack the
    setting, and their ids must stay.
    """

    default: Any
    parse: Parser
    help: str
    before: Any = None

    @property
    def unsaid(self) -> Any:
        """The value that the id of a run leaves out."""
        return self.default if self.before is None else self.before


Settings = Mapping[str, Setting]  # attribute → its declaration, in the order of the class


def setting(default: Any, parse: Parser, help: str, *, before: Any = None) -> Any:
    """A dataclass field that is a setting."""
    return field(default=default, metadata={"setting": Setting(default, parse, help, before)})


def settings_of(kind: type) -> Settings:
    """The settings that a dataclass declares."""
    return {entry.name: entry.metadata["setting"] for entry in fields(kind) if "setting" in entry.metadata}


def whole(low: int, high: int) -> Parser:
    """A parser of whole numbers in [low, high], given as numbers or as text."""

    def parse(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,20}", value):
            value = int(value)
        elif type(value) not in (int, bool) and isinstance(value, SupportsIndex):  # NumPy's whole numbers
            value = index(value)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return parse


def number(low: float, *, above: bool = False, below: float = math.inf) -> Parser:
    """A parser of finite numbers ≥ low (> low with ``above``) and < below."""

    def parse(value: Any) -> float:
        limit = "" if below == math.inf else f" and < {below:g}"
        wanted = f"a finite number {'>' if above else '≥'} {low:g}{limit}"
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(wanted)
        try:
            parsed = float(value)
        except (ValueError, OverflowError):
            raise ValueError(wanted) from None
        if not math.isfinite(parsed) or not low <= parsed < below or (above and parsed == low):
            raise ValueError(wanted)
        return parsed

    return parse


def share(value: Any) -> float:
    """A parser of numbers from 0 to 1."""
    try:
        parsed: float = number(0.0)(value)
    except ValueError:
        parsed = 2.0
    if parsed > 1.0:
        raise ValueError("a number from 0 to 1")
    return parsed


def switch(value: Any) -> bool:
    """A parser of true and false. It accepts no text, because the text "false" is truthy."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


@dataclass(frozen=True)
class OneOf:
    """A parser of a name from a set. Help and completion read the names."""

    names: Collection[str]
    besides: str = ""

    def __call__(self, value: Any) -> str:
        valid = list(self.names)
        if not isinstance(value, str) or value not in self.names:
            near = nearest(value, valid) if isinstance(value, str) else ""
            raise ValueError(f"one of {some_of(valid)}{self.besides}{near}")
        return value


def one_of(names: Collection[str], besides: str = "") -> OneOf:
    """A parser of a name from a set, such as a tuple or a registry; ``besides`` says what else the set accepts."""
    return OneOf(names, besides)


def epoch_list(value: Any) -> tuple[int, ...]:
    """A parser of a list of epochs: words on the command line, a list in TOML."""
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise ValueError("a list of epochs")
    try:
        return tuple(sorted({whole(0, 1_000_000)(word) for word in words}))
    except ValueError as error:
        raise ValueError(f"a list of epochs, each {error}") from None


def sizes(value: Any) -> tuple[int, ...]:
    """A parser of the sizes of layers, in order: 500, "500", "256,256", or a list of them."""
    given = value if isinstance(value, list | tuple) else [value]
    words = [
        part for word in given for part in (re.split(r"[,\s]+", word.strip()) if isinstance(word, str) else [word])
    ]
    try:
        found = tuple(whole(1, 65_536)(word) for word in words)
    except ValueError as error:
        raise ValueError(f"sizes of layers such as 256,256, each {error}") from None
    if not found:
        raise ValueError("at least one size of a layer, such as 500")
    return found


class Configurable(Registry[Member]):
    """A registry whose members are dataclasses that declare settings."""

    def __init__(self, family: str, targets: Mapping[str, str], *, contract: str | None = None) -> None:
        super().__init__(family, targets, contract=contract)
        self._settings: dict[str, Settings] = {}

    @property
    def declaring(self) -> tuple[str, ...]:
        """The members that declare settings of their own, and so not those that are derived from another member."""
        return tuple(self)

    def settings(self, name: str) -> Settings:
        """The settings of a member, read from its source; imports the member only if the source cannot be read."""
        target = self._target(name)
        known_as = f"{target} {self.digest(name)}" if self.is_own(name) else name  # the source of an own one may change
        if known_as not in self._settings:
            with self.searched(name, "cannot be read"):
                self._settings[known_as] = self._read(name, *target.split(":"))
        return self._settings[known_as]

    def _read(self, name: str, module: str, attribute: str) -> Settings:
        try:
            return declared(module, attribute)
        except Unreadable:
            kind: Any = self[name]
            return settings_of(kind)

    def must_be_member(self, found: Any, what: str) -> None:
        super().must_be_member(found, what)
        lost = [name for kind in found.__mro__ for name, value in vars(kind).items() if is_setting(value)]
        if lost:  # the decorator replaces each field by its default
            raise ConfigError(f"{what}: expected @dataclass(frozen=True) above its class, since it declares {lost[0]}")


def is_setting(value: Any) -> bool:
    """Whether a value is a declaration that no dataclass has taken up."""
    return isinstance(value, Field) and "setting" in value.metadata


class Unreadable(Exception):
    """The source of a class does not show its settings."""


def declared(module: str, name: str) -> dict[str, Setting]:
    """The settings of a class by the source of its module and of its base classes."""
    if module.split(".")[0] in sys.stdlib_module_names:
        return {}
    try:
        tree, package = syntax_tree(module)
    except (ImportError, ValueError, OSError, SyntaxError):  # not a file, such as a class typed into a notebook
        raise Unreadable(module) from None
    own = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if own is None:
        return declared(*imported(tree, package, name))
    found: dict[str, Setting] = {}
    for base in reversed(own.bases):  # the first base overrides the others
        head = base.value if isinstance(base, ast.Subscript) else base
        if not isinstance(head, ast.Name):
            raise Unreadable(ast.unparse(base))
        here = any(isinstance(node, ast.ClassDef) and node.name == head.id for node in tree.body)
        found |= declared(module, head.id) if here else declared(*imported(tree, package, head.id))
    for line in own.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            declaration = evaluated(line)
            if declaration is None:
                found.pop(line.target.id, None)  # a field of another kind hides the inherited setting
            else:
                found[line.target.id] = declaration
    return found


def imported(tree: ast.Module, package: str, name: str) -> tuple[str, str]:
    """The module that a name of a file is imported from, and its name there."""
    typed = [line for block in tree.body if isinstance(block, ast.If) for line in block.body]  # public names of faudit
    for line in (*tree.body, *typed):
        for alias in line.names if isinstance(line, ast.ImportFrom) else ():
            if isinstance(line, ast.ImportFrom) and (alias.asname or alias.name) == name:
                return resolve_name("." * line.level + (line.module or ""), package), alias.name
    raise Unreadable(name)


def evaluated(line: ast.AnnAssign) -> Setting | None:
    """The setting that a line of a class declares; None if it declares something else."""
    call = line.value
    if not isinstance(call, ast.Call) or "ClassVar" in ast.unparse(line.annotation):
        return None
    if not isinstance(call.func, ast.Name) or call.func.id not in ("setting", "field"):
        raise Unreadable(ast.unparse(call))
    if call.func.id == "field":
        return None
    try:
        found = eval(compile(ast.Expression(call), "<setting>", "eval"), dict(globals()))
    except NameError:
        raise Unreadable(ast.unparse(call)) from None
    declaration: Setting = found.metadata["setting"]
    return declaration


@cache
def key(name: str) -> str:
    """The key of an attribute, as in flags, TOML and JSON."""
    return name.replace("_", "-")


@cache
def attribute(name: str) -> str:
    """The attribute of a key."""
    return name.replace("-", "_")


def quoted(value: Any) -> str:
    """A value as a message shows it, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print an int with thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"
