r"""Text and tables as LaTeX for a paper. They need the packages ``booktabs`` and ``amsmath`` and no others.

``escaped`` turns any text into LaTeX that prints the same text: special characters are escaped, and Greek letters and
signs become math. A character that pdfLaTeX cannot print is written as its code point, such as [U+4E2D].
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", '"': "''", "`": "{}`{}", "\n": " ", "\t": " ", "\r": " ",
    "–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "\u00a0": "~",
}  # fmt: skip
MATH = {
    "<": "<", ">": ">", "|": "|", "−": "-", "×": r"\times", "±": r"\pm", "·": r"\cdot", "≤": r"\le", "≥": r"\ge",
    "≠": r"\ne", "≈": r"\approx", "→": r"\to", "←": r"\leftarrow", "√": r"\surd", "∂": r"\partial", "∠": r"\angle",
    "∞": r"\infty", "∈": r"\in", "Σ": r"\Sigma", "∑": r"\sum", "°": r"{}^\circ", "‖": r"\|", "ℓ": r"\ell",
    "✓": r"\surd", "✗": r"\times", "½": r"\tfrac12", "²": "{}^2", "³": "{}^3", "ᵀ": r"{}^\top", "Γ": r"\Gamma",
    "Δ": r"\Delta", "Θ": r"\Theta", "Λ": r"\Lambda", "Φ": r"\Phi", "Ω": r"\Omega", "α": r"\alpha", "β": r"\beta",
    "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "η": r"\eta", "θ": r"\theta", "κ": r"\kappa", "λ": r"\lambda",
    "μ": r"\mu", "ν": r"\nu", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "τ": r"\tau", "φ": r"\varphi", "χ": r"\chi",
    "ω": r"\omega", "⟨": r"\langle", "⟩": r"\rangle", "⊤": r"\top",
}  # fmt: skip
NORM = re.compile(r"‖([A-Za-z])_([A-Za-z0-9])‖")  # ‖h_L‖, the one formula that the tables contain
NUMBER = re.compile(r"([+\-−]?)(\d[\d,]*\.?\d*|\.\d+)(?:e([+\-−]?)0*(\d+))?([×%]?)")
# Letters with accents, which LaTeX reads as UTF-8; the default encoding OT1 lacks some of them.
LATIN = frozenset(map(chr, range(0xA1, 0x180))) - set("«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ\u00ad")
DASHES = re.compile("[-–—](?=[-–—])")
NO_LABEL = re.compile(r"[^A-Za-z0-9:.-]+")


def escaped(text: str) -> str:
    """LaTeX that prints the given text."""
    pieces: list[tuple[bool, str]] = []  # (whether it is math, LaTeX)
    place = 0
    while place < len(text):
        if norm := NORM.match(text, place):
            pieces.append((True, rf"\|{norm[1]}_{norm[2]}\|"))
            place = norm.end()
        else:
            is_math, latex = one(text[place])
            # In the name of a flag, for example: two hyphens in a row would become a dash.
            pieces.append((is_math, latex + "{}" * bool(DASHES.match(text, place))))
            place += 1
    out = []
    for is_math, group in groupby(pieces, key=lambda piece: piece[0]):
        parts = [latex for _, latex in group]
        out.append(f"${' '.join(parts)}$" if is_math else "".join(parts))
    return "".join(out)


def one(character: str) -> tuple[bool, str]:
    """One character: whether it is math, and its LaTeX."""
    if character in MATH:
        return True, MATH[character]
    if character in TEXT:
        return False, TEXT[character]
    if " " <= character <= "~" or character in LATIN:
        return False, character
    return False, f"[U+{ord(character):04X}]"


def cell(text: str) -> str:
    """A cell of a table: a number as math, so that its minus and its exponent are set right; other text escaped."""
    found = NUMBER.fullmatch(text)
    if not found:
        return escaped(text)
    sign, digits, minus, exponent, unit = found.groups(default="")
    power = rf" \times 10^{{{'' if minus in ('', '+') else '-'}{exponent}}}" if exponent else ""
    end = {"×": r"\times", "%": r"\%", "": ""}[unit]
    return f"${sign.replace('−', '-')}{digits.replace(',', '{,}')}{power}{end}$"


def tabular(
    lines: Sequence[Sequence[str]], *, columns: str = "", caption: str = "", wide: Mapping[str, float] | None = None
) -> str:
    """A bare ``tabular``, the first line its header; by default the first column is aligned left, the others right.

    The caption is a comment, so that the table fits into any float of the caller's. ``wide`` is as in ``table``.
    """
    notes = [f"% {line}" for line in ["needs \\usepackage{booktabs,amsmath}", *caption.splitlines()]]
    letters = columns or "l" + "r" * (len(lines[0]) - 1)
    return "\n".join([*notes, r"{\footnotesize\setlength{\tabcolsep}{3pt}%", *body(lines, letters, wide or {}), "}"])


def body(lines: Sequence[Sequence[str]], columns: Sequence[str], wide: Mapping[str, float]) -> list[str]:
    """The lines of a ``tabular``: its header and rows. A column in ``wide`` is wrapped, with its share of the line."""
    head = lines[0]
    spec = "".join(
        rf"p{{{wide[name]:g}\linewidth}}" if name in wide else column
        for name, column in zip(head, columns, strict=True)
    )
    ragged = {place for place, name in enumerate(head) if name in wide}
    first, *rest = (line_of(line, ragged) for line in lines)
    opened = rf"\begin{{tabular}}{{@{{}}{spec}@{{}}}}"
    return [opened, r"\toprule", first, r"\midrule", *rest, r"\bottomrule", r"\end{tabular}"]


# The numbered caption of a table that stays where it is. LaTeX itself has captions for floats alone.
CAPTION = r"\makeatletter\providecommand{\faudittable}[1]{\def\@captype{table}\caption{#1}}\makeatother"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str,
    label: str,
    *,
    wide: Mapping[str, float] | None = None,
) -> str:
    r"""A table with a caption and a label that stays in its place, as ``booktabs`` sets it; it needs ``CAPTION``.

    Header, cells and caption are plain text. A column of numbers is aligned right. ``wide`` gives columns of long text
    their share of the line; they are wrapped.
    """
    lines = [[str(text) for text in row] for row in rows]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"a table of {len(header)} columns: expected as many cells in each row")
    columns = [aligned([line[place] for line in lines]) for place in range(len(header))]
    return "\n".join(
        [
            r"\noindent\begin{minipage}{\linewidth}",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\faudittable{{{escaped(caption)}}}",
            rf"\label{{{NO_LABEL.sub('-', label)}}}\par\smallskip",
            *body([header, *lines], columns, wide or {}),
            r"\end{minipage}",
            r"\par\medskip",
        ]
    )


def aligned(cells: Sequence[str]) -> str:
    """The alignment of a column: right if it holds numbers and dashes alone."""
    known = [text for text in cells if text not in ("", "–")]
    return "r" if known and all(map(NUMBER.fullmatch, known)) else "l"


def line_of(cells: Sequence[str], ragged: Collection[int] = ()) -> str:
    r"""One line of a table. The cells at ``ragged`` are wrapped; in them ``\\`` would end a line of the cell."""
    texts = [rf"\raggedright {cell(text)}" if place in ragged else cell(text) for place, text in enumerate(cells)]
    guard = "{}" if texts[0][:1] in ("[", "*") else ""  # after the \\ of the line before, these would be its argument
    end = r"\tabularnewline" if ragged else r"\\"
    return f"{guard}{' & '.join(texts)} {end}"
