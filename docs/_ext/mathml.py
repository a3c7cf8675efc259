"""Formulas as MathML, made when the site is built: a page needs no script and no network to show them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = node.astext()
    try:
        text = str(tex2mathml(tex, as_block=as_block))
    except MathError as error:
        raise ExtensionError(f"{node.source}:{node.line}: cannot show the formula {tex!r}: {error}") from None
    return re.sub(
        r"<mo([^>]*)>(?=[‖⟨⟩]</mo>)", r'<mo\1 stretchy="false">', text
    )  # as LaTeX: only \left and \right stretch
