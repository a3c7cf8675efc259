"""The documentation site builds without a warning, opens from disk without a network, and holds what the code has."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import faudit
from faudit.cli.main import COMMANDS
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow
OPTIONAL = (
    "ray",
    "tensorboard",
    "wandb",
    "mlflow",
    "pandas",
    "polars",
    "pyarrow",
    "transformers",
    "lightning",
    "IPython",
)
# As `make docs` builds it. It prints the optional packages that were imported on the way.
BUILD = f"""
import sys
from sphinx.cmd.build import main
code = main(["-q", "-W", "--keep-going", "-c", "docs", "-d", sys.argv[2], ".", sys.argv[1]])
print(*[name for name in {OPTIONAL!r} if name in sys.modules])
sys.exit(code)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("sphinx", reason="the docs need Python 3.11")
    out, kept = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("doctrees")
    words = [sys.executable, "-c", BUILD, str(out), str(kept)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stdout.strip(), f"the build imports {done.stdout}"
    yield out


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_page_is_there(site: Path) -> None:
    sources = [page.relative_to(ROOT).with_suffix(".html") for page in (ROOT / "docs").glob("*.md")]
    assert len(sources) > 15 and all((site / page).exists() for page in sources)
    assert 'url=docs/index.html"' in (site / "index.html").read_text()


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    """Within the site, also to the anchor; the sources are checked apart, as a forge shows them."""
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', page.read_text())) for page in pages(site)}
    for page, own in anchors.items():
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', page.read_text()):
            path, _, anchor = html.unescape(unquote(target)).partition("#")
            if re.match(r"\w+:", path):
                continue
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{page.relative_to(site)} links to {target}"
            if anchor and file in anchors:
                known = own if file == page else anchors[file]
                assert anchor in known, f"{page.relative_to(site)} links to {target}"


def test_a_page_asks_the_network_for_nothing(site: Path) -> None:
    for page in pages(site):
        asked = re.findall(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"', page.read_text())
        assert not asked, f"{page.relative_to(site)}: {asked}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style


def test_the_references_hold_every_command_and_every_public_name(site: Path) -> None:
    commands, api = ((site / "docs" / page).read_text() for page in ("commands.html", "api.html"))
    assert [name for name in COMMANDS if f'id="faudit-{name}"' not in commands] == []
    assert [name for name in faudit.__all__ if f'id="faudit.{name}"' not in api] == []
    assert "--with-controls" in commands and "–" not in commands.replace(" – ", "")


def test_formulas_are_mathml(site: Path) -> None:
    concepts = (site / "docs" / "concepts.html").read_text()
    assert concepts.count("<math") > 50 and "$" not in re.sub(r"<(script|style).*?</\1>", "", concepts, flags=re.DOTALL)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_phone_and_say_nothing_on_the_console(site: Path, browser: Any, dark: bool) -> None:
    """Wide tables, formulas and code scroll by themselves, not the page."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark" if dark else "light")
    page, said, asked = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    wide = []
    for path in pages(site):
        if path == site / "index.html":  # it leads on at once
            continue
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(str(path.relative_to(site)))
    context.close()
    assert (wide, said) == ([], []) and all(url.startswith(("file:", "data:")) for url in asked)
