"""Registries: tables of name → "module:attribute" whose members are imported on first use.

Names and one-line descriptions are read without importing the members, and so without torch. This keeps
``faudit list rules`` and the validation of a config fast.

A family with a contract also takes members that are not in its table, by ``package.module:Name``. They are searched
where Python searches, and then in the current directory. Their code is imported only when the member is used. Whatever
it raises then becomes an error of one line.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from faudit.errors import ConfigError, FauditError, error_text, is_out_of_memory

Member = TypeVar("Member")
LISTED = 12  # most names in a message
OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")  # package.module:Name
DIGITS = 10  # of a digest in a message


class Registry(Mapping[str, Member], Generic[Member]):
    """A read-only mapping whose values are imported on first access.

    ``contract`` is the base class of the members, as "module:Name". A family that has one takes own members too.
    """

    def __init__(self, family: str, targets: Mapping[str, str], *, contract: str | None = None) -> None:
        self.family = family
        self.contract = contract
        self._targets = dict(targets)
        self._imported: dict[str, str] = {}  # own member → the digest of its source when it was imported

    def _target(self, name: str) -> str:
        if name in self._targets:
            return self._targets[name]
        if name in self:
            return self.own_name(name)
        raise ConfigError(unknown(self.family, name, self._targets))

    def __getitem__(self, name: str) -> Member:
        target = self._target(name)
        if name not in self._targets:
            return self._own(target)
        module, attribute = target.split(":")
        member: Member = getattr(importlib.import_module(module), attribute)
        return member

    def own_name(self, name: str) -> str:
        """The ``package.module:Name`` of an own member."""
        return name

    def _own(self, target: str) -> Member:
        """Import an own member and check it."""
        what, (module, attribute) = f"{self.family} {target}", target.split(":")
        now = self.digest(target)
        if self._imported.setdefault(target, now) != now:
            raise ConfigError(
                f"{what}: its source changed after it was imported: expected {self._imported[target][:DIGITS]}, "
                f"got {now[:DIGITS]}. Start Python again."
            )
        with self.searched(target, "cannot be imported"):
            home = importlib.import_module(module)
        found = getattr(home, attribute, None)
        if found is None:
            names = [name for name, value in vars(home).items() if callable(value)]
            raise ConfigError(f"{what}: {module} has no {attribute!r}{nearest(attribute, names)}")
        self.must_be_member(found, what)
        member: Member = found
        return member

    def must_be_member(self, found: Any, what: str) -> None:
        """Refuse what is not a complete class with the family's contract."""
        assert self.contract is not None, "only a family with a contract has own members"
        module, name = self.contract.split(":")
        contract = getattr(importlib.import_module(module), name)
        if not (isinstance(found, type) and issubclass(found, contract)):
            got = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
            raise ConfigError(f"{what} is no {self.family}: expected a class derived from {module}.{name}, got {got}")
        if inspect.isabstract(found):
            missing = ", ".join(sorted(vars(found)["__abstractmethods__"]))
            raise ConfigError(
                f"{what} is not complete: expected the methods of {module}.{name}, got none for {missing}"
            )

    def digest(self, name: str) -> str:
        """A checksum over the source of an own member: its file, and files of the same package that it imports."""
        target = self._target(name)
        what, module = f"{self.family} {target}", target.split(":")[0]
        if module == "__main__":
            raise ConfigError(
                f"{what} is in the script or notebook that runs: expected package.module:Name. Put it in a file."
            )
        if module.split(".")[0] == "faudit":
            raise ConfigError(
                f"{what} is faudit's: expected a module of your own, or a name. Valid: {some_of([*self])}"
            )
        with self.searched(target, "cannot be read"):
            return source_digest(module)

    @contextmanager
    def searched(self, name: str, problem: str) -> Iterator[None]:
        """Read or import the source of a member. An own one is also searched in the current directory."""
        if not self.is_own(name):
            yield
            return
        with here(), foreign(f"{self.family} {self.own_name(name)} {problem}"):
            yield

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __contains__(self, name: object) -> bool:
        if name in self._targets:
            return True
        return self.contract is not None and isinstance(name, str) and bool(OWN.fullmatch(self.own_name(name)))

    def is_own(self, name: str) -> bool:
        """Whether a name is that of a member outside the table."""
        return name not in self._targets and name in self

    def __repr__(self) -> str:
        return f"<{self.family}: {', '.join(self._targets)}>"

    def source(self, name: str) -> tuple[ast.Module, ast.FunctionDef | ast.ClassDef | None]:
        """The syntax tree of a member's file, and its node there if it is a function or class; imports nothing."""
        module, attribute = self._target(name).split(":")
        try:
            with self.searched(name, "cannot be read"):
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
    """The syntax tree of a module, and the package that its relative imports start from; imports nothing."""
    path = source_file(module)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return _parsed(str(path), os.stat(path).st_mtime_ns), package


def source_file(module: str) -> Path:
    """The file of a module; ImportError if it has none. Python's own search would import the packages above it."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise ImportError(f"no module {top}")
    folders = list(spec.submodule_search_locations or ())
    found = [Path(spec.origin)] if spec.origin else []
    for word in rest:
        places = [Path(folder) / word for folder in folders]
        found = [
            file for place in places for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()
        ]
        folders = [str(place) for place in places if place.is_dir()]
    if not found or found[0].suffix != ".py":
        raise ImportError(f"no file {module.replace('.', '/')}.py")
    return found[0]


def source_digest(module: str) -> str:
    """SHA-256 over the file of a module and over the files of its top package that it imports, directly or not."""
    place = (module, *sys.path)
    marks, digest = _DIGESTS.get(place, ({}, ""))
    if not marks or marks != {path: mark(path) for path in marks}:
        files = source_files(module)
        hashed = hashlib.sha256()
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            hashed.update(f"{name} {len(content)} ".encode() + content)
        digest = hashed.hexdigest()
        _DIGESTS[place] = {path: mark(path) for path in files.values()}, digest
    return digest


# (module, the places of the search) → size and time of the files, and their digest: a study asks thousands of times.
_DIGESTS: dict[tuple[str, ...], tuple[dict[Path, tuple[int, int] | None], str]] = {}


def mark(path: Path) -> tuple[int, int] | None:
    """The size and modification time of a file; None if it is gone."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns


def source_files(module: str) -> dict[str, Path]:
    """The file of a module and of every module of its top package that it imports, directly or not, by name."""
    top, queue = module.split(".")[0], [module]
    files: dict[str, Path] = {}
    while queue:
        name = queue.pop()
        if name not in files:
            files[name] = source_file(name)
            imported = imports_of(*syntax_tree(name))
            queue += [other for other in imported if other.split(".")[0] == top and has_source(other)]
    return files


def imports_of(tree: ast.Module, package: str) -> Iterator[str]:
    """Every module that a file may import, by its name; a name from a module may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (home, *(f"{home}.{alias.name}" for alias in node.names))


def has_source(module: str) -> bool:
    """Whether a module has a file."""
    try:
        source_file(module)
    except ImportError:
        return False
    return True


@contextmanager
def here() -> Iterator[None]:
    """Search the current directory too, after all other places: a file there never stands for an installed module."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:  # it was deleted
        yield
        return
    sys.path.append(directory)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        places = len(sys.path) - 1 - sys.path[::-1].index(directory)  # the last one, which is ours
        del sys.path[places]


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run code of the user: whatever it raises becomes an error of one line. faudit's own errors pass unchanged."""
    try:
        yield
    except FauditError:
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise
        told = f"it called sys.exit({error.code!r})" if isinstance(error, SystemExit) else error_text(error)
        raise ConfigError(f"{what}: {told}") from error


@lru_cache(maxsize=256)
def _parsed(path: str, modified: int) -> ast.Module:
    """The syntax tree of a file as it was when ``modified``; many members share the file of their base class."""
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read())


def unknown(what: str, name: object, valid: Iterable[str]) -> str:
    """The message for an unknown name, with the closest valid name and all valid names."""
    names = list(valid)
    near = nearest(name, names) or "."
    return f"unknown {what} {str(name)!r}{near} Valid: {some_of(names)}"


def some_of(names: Sequence[str]) -> str:
    """Names in a message: all of them, or the first ones and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def nearest(name: object, valid: Iterable[str]) -> str:
    """The text ", did you mean …?" if a valid name is close, else an empty string."""
    near = difflib.get_close_matches(str(name), list(valid), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""
