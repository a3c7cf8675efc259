"""What a forge does and Sphinx does not: the sidebar from the lists of docs/index.md, and links to files of the repo.

A link to a file that is no page, such as an example, leads to a page with its source. A link to a folder leads to its
README.md, or to a list of its files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
SCHEME = "repo:"
SHOWN = "code"  # the folder of the pages that show files


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read)
    app.connect("doctree-read", resolve)
    app.connect("html-collect-pages", shown)
    app.connect("env-purge-doc", lambda app, env, docname: linked(env).pop(docname, None))
    app.connect("env-merge-info", lambda app, env, docnames, other: linked(env).update(linked(other)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def linked(env: Any) -> dict[str, set[str]]:
    """The files of the repository that are linked from each page."""
    if not hasattr(env, "linked_files"):
        env.linked_files = {}
    found: dict[str, set[str]] = env.linked_files
    return found


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(docname))

    def target(match: re.Match[str]) -> str:
        text, path, anchor = match.groups()
        file = Path(os.path.normpath(page.parent / path))
        if ":" in path or not file.exists() or file.suffix == ".md":
            return match[0]
        if (file / "README.md").exists():
            return f"[{text}]({path}/README.md)"
        name = file.relative_to(app.srcdir).as_posix()
        linked(app.env).setdefault(docname, set()).add(name)
        return f"[{text}]({SCHEME}{name}{anchor})"

    source[0] = LINK.sub(target, source[0])
    if docname == app.config.root_doc:
        source[0] += "\n".join(sidebar(source[0]))
    elif not docname.startswith("docs/") and f"../{docname}.md" not in index_text(app):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"  # reached by links only


def index_text(app: Sphinx) -> str:
    return Path(app.env.doc2path(app.config.root_doc)).read_text()


def sidebar(text: str) -> Iterator[str]:
    """One hidden table of contents for each section of the index: the pages that its list links to."""
    for section in text.split("\n## ")[1:]:
        caption, _, rest = section.partition("\n")
        paths = re.findall(r"^- \[[^\]]*\]\(([^)#]+)\.md\)", rest, flags=re.MULTILINE)
        if paths:
            yield "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *paths, "```", ""])


def resolve(app: Sphinx, tree: nodes.document) -> None:
    docname = app.env.docname
    for node in tree.findall(nodes.reference):
        if str(node.get("refuri", "")).startswith(SCHEME):
            path, _, anchor = node["refuri"].removeprefix(SCHEME).partition("#")
            node["refuri"] = app.builder.get_relative_uri(docname, f"{SHOWN}/{path}") + (f"#{anchor}" if anchor else "")


def shown(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each linked file: its source, or the names in it if it is a folder."""
    highlighter = getattr(app.builder, "highlighter", None)
    for name in sorted({name for names in linked(app.env).values() for name in names}):
        file = Path(app.srcdir) / name
        language = {".py": "python", ".ipynb": "python", ".toml": "toml"}.get(file.suffix, "none")
        body = highlighter.highlight_block(text_of(file), language) if highlighter else ""
        yield f"{SHOWN}/{name}", {"title": name, "body": f'<h1 class="file">{name}</h1>\n{body}'}, "page.html"


def text_of(file: Path) -> str:
    """The text of a file; the cells of a notebook, one after another; the names in a folder."""
    if file.is_dir():
        return "\n".join(sorted(one.name for one in file.iterdir()))
    if file.suffix == ".ipynb":
        cells = json.loads(file.read_text())["cells"]
        return "\n\n".join(cell_text(cell["cell_type"], "".join(cell["source"])) for cell in cells)
    return file.read_text()


def cell_text(kind: str, text: str) -> str:
    return text if kind == "code" else "\n".join(f"# {line}".rstrip() for line in text.splitlines())
