"""The code blocks of a Markdown page, and whether an output is what the page shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

NOT_RUN = "# not run: "  # the first line of a block that cannot run, with the reason
NUMBER = re.compile(r"(?<![\w.-])[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
RELATIVE, ABSOLUTE = 0.2, 0.03  # how far a measured number may be from the page's, on another processor


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def runs(self) -> bool:
        return not self.text.startswith(NOT_RUN)

    @property
    def file(self) -> str | None:
        """The file that the block is, if its first line is a comment with nothing but a file name."""
        named = re.match(r"# ([\w-]+\.(?:py|toml))\n", self.text)
        return named[1] if named else None

    def commands(self) -> list[str]:
        """The commands of a block for the shell, without comments."""
        lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in self.text.splitlines())
        return [line for line in lines if line]


def blocks_of(page: Path) -> list[Block]:
    """Every block of code of a page; an indented one has no language."""
    tokens = MarkdownIt().parse(page.read_text())
    return [
        Block(page, token.map[0] + 1 if token.map else 0, token.info.strip(), token.content)
        for token in tokens
        if token.type in ("fence", "code_block")
    ]


def differs(shown: str, got: str) -> str | None:
    """How an output differs from the one that a page shows; None if it does not.

    Words must be equal, "…" stands for anything, and the width of a gap does not count. Counts must be equal. Numbers
    with a decimal point, and those before × or %, are measured: they may differ as they do between processors.
    """
    pattern, numbers = "", list[tuple[str, bool]]()
    for part in re.split(rf"({NUMBER.pattern}(?:\s?[×%])?|…|\s+)", shown.strip()):
        if part == "…":
            pattern += r".*?"
        elif part.isspace():
            pattern += r"\s+"
        elif found := NUMBER.match(part):
            unit = part[found.end() :]
            pattern += f"({NUMBER.pattern}){re.escape(unit)}"
            numbers.append((found[0], bool(unit) or "." in found[0]))
        else:
            pattern += re.escape(part)
    match = re.fullmatch(pattern, got.strip(), flags=re.DOTALL)
    if match is None:
        return f"expected\n{shown}\ngot\n{got}"
    for (expected, is_measured), value in zip(numbers, match.groups(), strict=True):
        far = max(ABSOLUTE, RELATIVE * abs(float(expected))) if is_measured else 0.0
        if not abs(float(value) - float(expected)) <= far:
            return f"expected {expected}, got {value} in\n{got}"
    return None
