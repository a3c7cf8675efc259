"""The directives `api` and `members`: the public names and the members of the families, from their docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import faudit
from faudit.cli.list import FAMILIES
from faudit.registry import Registry


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("api", Api)
    app.add_directive("members", Members)
    app.connect("autodoc-process-docstring", lambda app, what, name, found, options, lines: readable(lines))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Generated(SphinxDirective):  # type: ignore[misc]  # its types are skipped
    """Makes sections whose content is reStructuredText, as docstrings are."""

    def section(self, title: nodes.Node, *, label: str, text: str) -> nodes.section:
        found = nodes.section(ids=[nodes.make_id(label)], names=[label])
        found += nodes.title("", "", title)
        found += self.parse_text_to_nodes(f"````{{eval-rst}}\n{text}\n````")
        return found


class Api(Generated):
    """Every public name of faudit, by its kind."""

    def run(self) -> list[nodes.Node]:
        homes = {name: home for home, names in faudit._HOMES.items() for name in names}
        public = {name: getattr(import_module(homes[name]), name) for name in faudit.__all__}
        vars(faudit).update(public)  # or autodoc finds the package faudit.watch in place of the function
        tables = [name for name, value in public.items() if isinstance(value, Registry)]
        kinds = {
            "Functions": [
                f".. autofunction:: faudit.{name}" for name, one in public.items() if inspect.isfunction(one)
            ],
            "Classes": [
                f".. autoclass:: faudit.{name}\n   :members:" for name, one in public.items() if inspect.isclass(one)
            ],
            "Tables of names": [table(name, public[name]) for name in tables],
        }
        return [self.section(nodes.Text(title), label=title, text="\n\n".join(texts)) for title, texts in kinds.items()]


class Members(Generated):
    """What the file of each member of a family says."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        family = FAMILIES[self.arguments[0]]
        return [self.member(family, name) for name in family]

    def member(self, family: Registry[Any], name: str) -> nodes.section:
        member = family[name]
        home = sys.modules[member.__module__]
        self.env.note_dependency(str(home.__file__))
        lines = (inspect.getdoc(home) or "").splitlines()
        readable(lines)
        text = "\n".join([*lines, "", f"*In the code:* ``{member.__module__}.{member.__name__}``"])
        return self.section(nodes.literal("", name), label=f"{family.family} {name}", text=text)


def table(name: str, registry: Registry[Any]) -> str:
    """A registry as a list of its members."""
    members = [f"``{one}``\n    {registry.summary(one)}" for one in registry]
    return "\n\n".join([f".. py:data:: faudit.{name}", "   " + "\n   ".join("\n".join(members).splitlines())])


def readable(lines: list[str]) -> None:
    """Make a docstring valid reStructuredText: formulas on indented lines, and sizes such as |W| in a sentence."""
    for place, line in enumerate(lines):
        if not line.startswith("    "):
            lines[place] = re.sub(r"``.*?``|\|", lambda found: "\\|" if found[0] == "|" else found[0], line)
    for place in reversed(range(2, len(lines))):
        prose, gap, line = lines[place - 2 : place + 1]
        if line.startswith("    ") and not gap and prose[:1].strip() and not prose.endswith("::"):
            lines[place:place] = ["::", ""]
