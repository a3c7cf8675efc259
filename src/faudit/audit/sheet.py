r"""A page as a list of parts: headings, sentences, lists and tables. It is written as Markdown or as LaTeX.

The LaTeX is for ``\input`` in a paper: it starts at ``\section`` and needs the packages booktabs and amsmath.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faudit.latex import CAPTION, escaped, table

HASH = re.compile("[0-9a-f]{64}")
LINE = 80  # characters of a table that LaTeX sets in one line of an article
ROWS = 45  # lines of a table that fit on a page
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
        return [r"\begin{itemize}\raggedright", *lines, r"\end{itemize}"]


def breakable(found: re.Match[str]) -> str:
    """A hash in pieces between which LaTeX may break the line."""
    return r"\allowbreak ".join(re.findall(".{1,8}", found[0]))


@dataclass(frozen=True)
class Grid:
    """A table with its caption. LaTeX wraps the columns in ``wide``, each with its share of the line.

    A table that is too wide or too long for a page becomes several in LaTeX. If it is ``keyed``, its columns are
    numbered there, and the caption says what the numbers mean.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    wide: Mapping[str, float] = field(default_factory=dict)
    keyed: bool = False

    def markdown(self) -> list[str]:
        lines = (self.header, ["---"] * len(self.header), *self.rows)
        return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]

    def latex(self) -> list[str]:
        label = f"tab:{self.caption.rstrip('.').lower()}"
        header, caption = list(self.header), self.caption
        if self.keyed:
            header = [header[0], *map(str, range(1, len(header)))]
            told = "; ".join(f"{number}: {name}" for number, name in zip(header[1:], self.header[1:], strict=True))
            caption = f"{caption} {told}."
        parts = [
            ([header[place] for place in columns], [[row[place] for place in columns] for row in rows])
            for rows in pieces(self.rows, ROWS)
            for columns in self.columns(header)
        ]
        several = len(parts) > 1
        return [
            table(head, rows, caption + f" Part {place} of {len(parts)}." * several,
                  label + f"-{place}" * several, wide=self.wide)
            for place, (head, rows) in enumerate(parts, start=1)
        ]  # fmt: skip

    def columns(self, header: Sequence[str]) -> list[list[int]]:
        """The columns of each part: as many as fit the line, after the first one, which every part has."""
        if self.wide:
            return [list(range(len(header)))]
        widths = [max(map(len, column)) + 2 for column in zip(header, *self.rows, strict=True)]
        found: list[list[int]] = [[0]]
        for place, width in enumerate(widths[1:], start=1):
            if len(found[-1]) > 1 and sum(widths[one] for one in found[-1]) + width > LINE:
                found.append([0])
            found[-1].append(place)
        return found


def pieces(rows: Sequence[Sequence[str]], size: int) -> list[Sequence[Sequence[str]]]:
    """Rows in pieces of at most some size; one empty piece if there are none."""
    return [rows[start : start + size] for start in range(0, len(rows), size)] or [rows]


Part = Heading | Text | Verdict | Points | Grid


def as_markdown(parts: Sequence[Part]) -> str:
    """The page as Markdown."""
    return "\n".join(line for part in parts for line in (*part.markdown(), ""))


def as_latex(parts: Sequence[Part]) -> str:
    """The page as LaTeX for an appendix."""
    head = [
        "% Made by `faudit audit --latex`. Needs \\usepackage{booktabs,amsmath}. Put it into the paper with \\input.",
        CAPTION,
        "",
    ]
    return "\n".join([*head, *(line for part in parts for line in (*part.latex(), ""))])
