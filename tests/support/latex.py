"""A reader of the LaTeX that faudit writes: refuses what pdfLaTeX would refuse, and gives back the text it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from faudit.latex import CAPTION

TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|[{}$&#%^_~]|[^\\{}$&#%^_~]", re.DOTALL)
PRINTS = {
    "\\textbackslash": "\\", "\\{": "{", "\\}": "}", "\\$": "$", "\\&": "&", "\\#": "#", "\\%": "%", "\\_": "_",
    "\\textasciicircum": "^", "\\textasciitilde": "~", "\\ldots": "…", "\\|": "‖", "\\Gamma": "Γ", "\\rho": "ρ",
    "\\lambda": "λ", "\\times": "×", "\\pm": "±", "\\ge": "≥", "\\le": "≤", "\\angle": "∠", "~": "\u00a0",
}  # fmt: skip
MATH_ONLY = {"\\|", "\\Gamma", "\\rho", "\\lambda", "\\times", "\\pm", "\\ge", "\\le", "\\angle", "^", "_"}
LAYOUT = {
    "\\section", "\\section*", "\\subsection", "\\subsection*", "\\paragraph", "\\caption", "\\label", "\\centering",
    "\\small", "\\footnotesize", "\\toprule", "\\midrule", "\\bottomrule", "\\textbf", "\\texttt", "\\item",
    "\\linewidth", "\\begin", "\\end", "\\appendix", "\\par", "\\raggedright", "\\allowbreak", "\\subsubsection",
    "\\noindent", "\\setlength", "\\tabcolsep", "\\smallskip", "\\medskip", "\\faudittable", "\\tabularnewline",
}  # fmt: skip
WITHIN = re.compile(r"\\(begin|end)\{(\w+)\}")


def printed(latex: str) -> str:
    """The text that a line of LaTeX prints. Two kinds of ligature are read as TeX does."""
    out, is_math = [], False
    tokens = TOKEN.findall(latex)
    assert "".join(tokens) == latex
    for place, token in enumerate(tokens):
        if token == "$":
            is_math = not is_math
        elif token in ("{", "}") or (token == " " and is_math):
            continue
        elif token in PRINTS:
            assert is_math or token not in MATH_ONLY, f"{token} outside of math: {latex}"
            out.append(PRINTS[token])
        elif token in ("-", "<", ">", "|") and is_math:
            out.append("−" if token == "-" else token)
        elif token == "_" and is_math:
            out.append("_")
        else:
            assert token not in "#%^_&\\<>|", f"{token!r} is special: {latex}"
            assert not token.startswith("\\"), f"{token} is not known: {latex}"
            if token == "-" and out and tokens[place - 1] == "-":
                out[-1] = "–"
            else:
                out.append(token)
    assert not is_math, f"math is left open: {latex}"
    return "".join(out)


def check(document: str) -> None:
    """Refuse a page that pdfLaTeX would refuse: braces, math, environments, columns of tables, unknown commands."""
    text = re.sub(r"(?<!\\)%.*", "", document).replace(CAPTION, "")
    open_ones: list[str] = []
    depth = 0
    columns: int | None = None
    for line in text.splitlines():
        for what, name in WITHIN.findall(line):
            if what == "begin":
                open_ones.append(name)
            else:
                assert open_ones and open_ones.pop() == name, f"\\end{{{name}}} closes nothing: {line}"
        if spec := re.search(r"\\begin\{tabular\}\{@\{\}(.*)@\{\}\}", line):
            columns = len(re.findall(r"[lrc]|p\{", re.sub(r"\{[^}]*linewidth\}", "{", spec[1])))
        elif "\\end{tabular}" in line:
            columns = None
        tokens = TOKEN.findall(line)
        assert tokens.count("$") % 2 == 0, f"math is left open: {line}"
        if line.endswith(("\\\\", "\\tabularnewline")):
            assert columns is not None and tokens.count("&") == columns - 1, f"{columns} columns: {line}"
        else:
            assert "&" not in tokens, f"& outside of a table: {line}"
        is_math = False
        for token in tokens:
            depth += {"{": 1, "}": -1}.get(token, 0)
            assert depth >= 0, f"a brace closes nothing: {line}"
            is_math ^= token == "$"
            known = token in PRINTS or token in LAYOUT or token in ("\\\\", "\\top", "\\surd", "\\to", "\\approx")
            assert known or not token.startswith("\\"), f"{token} is not known: {line}"
            assert is_math or token not in MATH_ONLY | {"<", ">", "|"}, f"{token} outside of math: {line}"
            assert token != "#", f"# is special: {line}"
            assert ord(token[-1]) < 0x180, f"pdfLaTeX has no {token!r}: {line}"
    assert not depth, "braces are left open"
    assert not open_ones, f"left open: {open_ones}"


def compiled(document: str, folder: Path) -> str | None:
    """Compile a page with pdfLaTeX or tectonic; None if neither is installed, else the log of a failure or ''.

    The line is that of NeurIPS and ICLR. A page on which something sticks out of it is a failure too.
    """
    tool = shutil.which("pdflatex") or shutil.which("tectonic")
    if tool is None:
        return None
    whole = [
        r"\documentclass{article}",
        r"\usepackage{booktabs,amsmath}",
        r"\setlength{\textwidth}{5.5in}\setlength{\textheight}{9in}",
        r"\begin{document}",
        document,
        r"\end{document}",
    ]
    (folder / "page.tex").write_text("\n".join(whole), encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if tool.endswith("pdflatex") else []
    done = subprocess.run([tool, *options, "page.tex"], cwd=folder, capture_output=True, text=True, timeout=120)
    sticks_out = [line for line in done.stdout.splitlines() if line.startswith("Overfull")]
    return done.stdout[-2000:] if done.returncode else "\n".join(sticks_out)
