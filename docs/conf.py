"""The documentation site: Sphinx with MyST and furo. The sources are the Markdown pages that a forge shows.

The source folder is the repository, so that relative links mean the same here and on a forge. `make docs` builds it.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs" / "_ext")]

from faudit import __version__  # noqa: E402  # the path comes first

project = "faudit"
author = "The faudit authors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "pages", "mathml", "commands", "api"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "*.md",
    "evidence/**/*.md",
    "evidence/*.md",
    "examples/**/README.md",
    "examples/README.md",
]
exclude_patterns = ["README.md", "site", "src", "tests", "runs", "demo", "data", "dist", "tmp", ".*", "**/node_modules"]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https", "mailto", "repo")  # repo: a file that is no page, see pages.py
highlight_language = "none"
smartquotes = False  # two hyphens are a flag

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"faudit {version}"
html_additional_pages = {"index": "redirect.html"}  # the pages are in docs/, as in the repository
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
