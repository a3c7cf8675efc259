"""LaTeX prints the same text that goes in, whatever it contains, and a table is what booktabs expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faudit.latex import CAPTION, MATH, TEXT, cell, escaped, line_of, table, tabular
from tests.support.latex import check, compiled, printed

TEXTS = st.text(alphabet="ab-_ %&#$^~\\{}[]*<>|Γρλ×±≥≤∠‖hL0.9–…\u00a0é", max_size=30)


@given(TEXTS)
def test_the_same_text_comes_out(text: str) -> None:
    assert printed(escaped(text)) == text


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("no_terminal_norm", r"no\_terminal\_norm"),
        ("50% & $x #1", r"50\% \& \$x \#1"),
        (r"a\b^c~d{e}", r"a\textbackslash{}b\textasciicircum{}c\textasciitilde{}d\{e\}"),
        ("‖h_L‖ of Γ ≥ 0.5", r"$\|h_L\|$ of $\Gamma$ $\ge$ 0.5"),
        ("‖h‖", r"$\|$h$\|$"),
        ("--rule", "-{}-rule"),
        ("1 – 2", "1 -- 2"),
        ("中\x07", "[U+4E2D][U+0007]"),
        ("a\nb", "a b"),
    ],
)
def test_by_hand(text: str, latex: str) -> None:
    assert escaped(text) == latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("-0.5", "$-0.5$"),
        ("−.008", "$-.008$"),
        ("1.23e+04", r"$1.23 \times 10^{4}$"),
        ("4.8e-8", r"$4.8 \times 10^{-8}$"),
        ("50.1×", r"$50.1\times$"),
        ("10,000", "$10{,}000$"),
        ("97%", r"$97\%$"),
        ("–", "--"),
        ("1 of 3", "1 of 3"),
        ("1-2", "1-2"),
    ],
)
def test_a_number_of_a_table_is_math(text: str, latex: str) -> None:
    assert cell(text) == latex


def test_a_table_by_hand() -> None:
    text = table(["run", "Γ"], [["[a_1", "+0.3"], ["*b", "–"]], "All_runs.", "tab:x y", wide={"run": 0.5})
    assert text.splitlines() == [
        r"\noindent\begin{minipage}{\linewidth}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\faudittable{All\_runs.}",
        r"\label{tab:x-y}\par\smallskip",
        r"\begin{tabular}{@{}p{0.5\linewidth}r@{}}",
        r"\toprule",
        r"\raggedright run & $\Gamma$ \tabularnewline",
        r"\midrule",
        r"\raggedright [a\_1 & $+0.3$ \tabularnewline",
        r"\raggedright *b & -- \tabularnewline",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{minipage}",
        r"\par\medskip",
    ]
    check(text)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=4))
def test_any_table_is_well_formed(rows: list[list[str]]) -> None:
    check(table(["a", "b"], rows, "caption", "label"))


def test_a_row_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        table(["a", "b"], [["1"]], "", "")


@pytest.mark.parametrize(
    "text",
    [r"a_b", r"a & b", r"\begin{table}", "{", "$x", "Γ", r"\frobnicate{}", "a#b", r"\|h\|", "a < b"],
)
def test_the_checker_refuses_broken_latex(text: str) -> None:
    with pytest.raises(AssertionError):
        check(text)


def test_a_table_compiles(tmp_path: Path) -> None:
    text = table(["run", "Γ, ‖h_L‖"], [["[a_1 50% & $ # ^ ~ \\ {} <>| é 中", "1e-5"]], "Γ ≥ 1 ± 2 × ∠ √ ½ ²", "t")
    log = compiled(f"{CAPTION}\n{text}", tmp_path)
    if log is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    assert log == ""


def test_every_character_compiles_with_the_default_fonts(tmp_path: Path) -> None:
    characters = [*map(chr, range(0x20, 0x180)), *TEXT, *MATH, "中", "\u0301"]
    log = compiled("\n\n".join(map(escaped, characters)), tmp_path)
    if log is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    assert log == ""


def test_a_bare_table_has_its_caption_as_a_comment() -> None:
    text = tabular([["rule", "‖h_L‖", "a & b"], ["dfa_x", "2.1e4", "−5 % ± 1 $"]], caption="n = 3")
    assert text.splitlines() == [
        r"% needs \usepackage{booktabs,amsmath}",
        "% n = 3",
        r"{\footnotesize\setlength{\tabcolsep}{3pt}%",
        r"\begin{tabular}{@{}lrr@{}}",
        r"\toprule",
        r"rule & $\|h_L\|$ & a \& b \\",
        r"\midrule",
        r"dfa\_x & $2.1 \times 10^{4}$ & $-$5 \% $\pm$ 1 \$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        "}",
    ]


def test_a_line_that_starts_with_a_bracket_is_guarded() -> None:
    assert line_of(["[a", "1"]) == r"{}[a & $1$ \\" and line_of(["*b"]) == r"{}*b \\"
