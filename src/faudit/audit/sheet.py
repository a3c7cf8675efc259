r"""A page as a list of parts: headings, sentences, lists and tables. It is written as Markdown or as LaTeX.

The LaTeX is for ``\input`` in a paper: it starts at ``\section`` and needs the packages booktabs and amsmath.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faudit.latex import escaped, table

HASH = re.compile("[0-9a-f]{64}")
SECTIONS = ("section", "subsection", "subsubsection")


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2

    def markdown(self) -> list[str]:
        return [f"{'#' * self.level} {self.text}"]

    def latex(self) -> list[str]:
        return [rf"\{SECTIONS[self.level - 1]}{{{escaped(self.text)}}}"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self) -> list[str]:
        return [self.text]

    def latex(self) -> list[str]:
        return [escaped(self.text)]


@dataclass(frozen=True)
class Verdict:
    """A verdict in bold, and what it is about."""

    verdict: str
    about: str = ""

    def markdown(self) -> list[str]:
        return [f"**{self.verdict}**{self.about}"]

    def latex(self) -> list[str]:
        return [rf"\textbf{{{escaped(self.verdict)}}}{escaped(self.about)}"]


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: Sequence[str]

    def markdown(self) -> list[str]:
        return [f"- {item}" for item in self.items]

    def latex(self) -> list[str]:
        # The braces keep a bracket at the start of an item from being read as its label.
        lines = [rf"\item {{}}{HASH.sub(breakable, escaped(item))}" for item in self.items]
        return [r"\begin{itemize}", *lines, r"\end{itemize}"]


def breakable(found: re.Match[str]) -> str:
    """A hash in pieces between which LaTeX may break the line."""
    return r"\allowbreak ".join(re.findall(".{1,16}", found[0]))


@dataclass(frozen=True)
class Grid:
    """A table with its caption; LaTeX wraps the columns in ``wide``, each with its share of the line."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    wide: Mapping[str, float] = field(default_factory=dict)

    def markdown(self) -> list[str]:
        lines = (self.header, ["---"] * len(self.header), *self.rows)
        return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]

    def latex(self) -> list[str]:
        label = f"tab:{self.caption.rstrip('.').lower()}"
        return [table(self.header, self.rows, self.caption, label, wide=self.wide)]


Part = Heading | Text | Verdict | Points | Grid


def as_markdown(parts: Sequence[Part]) -> str:
    """The page as Markdown."""
    return "\n".join(line for part in parts for line in (*part.markdown(), ""))


def as_latex(parts: Sequence[Part]) -> str:
    """The page as LaTeX for an appendix."""
    head = [
        "% Made by `faudit audit --latex`. Needs \\usepackage{booktabs,amsmath}. Put it into the paper with \\input.",
        "",
    ]
    return "\n".join([*head, *(line for part in parts for line in (*part.latex(), ""))])
